"""The variables of Hugging Face's own."""

from __future__ import annotations

import pytest
from sagemaker_huggingface_inference_toolkit.settings import HuggingFaceSettings, strtobool
from sagemaker_inference.settings import SettingsError


def read(**environ):
    return HuggingFaceSettings.read(environ)


def test_nothing_is_set_by_default():
    found = read(HF_TASK=" ", HF_MODEL_ID="")
    assert (found.task, found.model_id, found.revision, found.token, found.device_map) == (None,) * 5
    assert (found.trust_remote_code, found.offline, found.optimum_batch_size) == (False, False, 1)


def test_a_repository_and_its_revision():
    found = read(HF_MODEL_ID="org/name-2.0_x", HF_MODEL_REVISION="refs/pr/1")
    assert (found.repository, found.local_folder, found.revision) == ("org/name-2.0_x", None, "refs/pr/1")
    assert read(HF_MODEL_ID="gpt2").repository == "gpt2"


def test_a_folder_of_the_container(tmp_path):
    found = read(HF_MODEL_ID=str(tmp_path))
    assert (found.repository, found.local_folder) == (None, str(tmp_path))


@pytest.mark.parametrize(
    "name", ["s3://bucket/model", "https://huggingface.co/gpt2", "../x", "a/b/c", "a b", "-a", "a--b", "a..b"]
)
def test_what_is_no_model_id_is_refused(name):
    with pytest.raises(SettingsError, match=f"HF_MODEL_ID={name}: use the name of a repository"):
        read(HF_MODEL_ID=name)


def test_a_folder_that_is_not_there_is_refused():
    with pytest.raises(SettingsError, match="HF_MODEL_ID=/no/such: there is no such folder"):
        read(HF_MODEL_ID="/no/such")


def test_a_revision_needs_a_repository():
    with pytest.raises(SettingsError, match="HF_MODEL_REVISION=v1 needs HF_MODEL_ID"):
        read(HF_MODEL_REVISION="v1")


def test_the_first_token_wins_and_is_never_shown():
    found = read(HUGGING_FACE_HUB_TOKEN="hf_third", HF_TOKEN="hf_second", HF_API_TOKEN="hf_first")
    assert (found.token, found.sources["token"]) == ("hf_first", "HF_API_TOKEN")
    shown = "\n".join([*found.describe(), repr(found)])
    assert "hf_" not in shown
    assert "token = *** (HF_API_TOKEN)" in shown
    assert read(HUGGING_FACE_HUB_TOKEN="hf_third").token == "hf_third"


@pytest.mark.parametrize("word", ["y", "yes", "t", "true", "on", "1", "TRUE", "Yes"])
def test_words_for_yes(word):
    assert read(HF_TRUST_REMOTE_CODE=word).trust_remote_code is True


@pytest.mark.parametrize("word", ["n", "no", "f", "false", "off", "0", "False"])
def test_words_for_no(word):
    assert read(HF_TRUST_REMOTE_CODE=word).trust_remote_code is False


def test_other_words_are_refused():
    with pytest.raises(ValueError, match="use one of y, yes"):
        strtobool("maybe")


def test_every_fault_is_told_at_once():
    with pytest.raises(SettingsError) as caught:
        read(HF_TRUST_REMOTE_CODE="2", HF_OPTIMUM_BATCH_SIZE="0", HF_OPTIMUM_SEQUENCE_LENGTH="x", HF_DEVICE_MAP="gpu")
    names = [line.split("=")[0] for line in str(caught.value).splitlines()]
    assert names == [
        "HF_TRUST_REMOTE_CODE",
        "HF_DEVICE_MAP",
        "HF_OPTIMUM_BATCH_SIZE",
        "HF_OPTIMUM_SEQUENCE_LENGTH",
    ]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("auto", "auto"),
        ("balanced", "balanced"),
        ("cuda:1", "cuda:1"),
        ('{"": 0}', {"": 0}),
        ('{"a": "cpu"}', {"a": "cpu"}),
    ],
)
def test_device_maps(text, value):
    assert read(HF_DEVICE_MAP=text).device_map == value


@pytest.mark.parametrize("text", ["gpu", "{}", '["cpu"]', "3"])
def test_what_is_no_device_map(text):
    with pytest.raises(SettingsError, match=r"HF_DEVICE_MAP=.*or a JSON object of module names and devices"):
        read(HF_DEVICE_MAP=text)


@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"])
def test_either_switch_means_offline(name):
    assert read(**{name: "1"}).offline
    assert read(**{name: "1"}).sources["offline"] == name
    assert not read(**{name: "0"}).offline


def test_an_alias_of_a_task_is_read_as_its_task():
    assert read(HF_TASK="sentiment-analysis").task == "text-classification"
