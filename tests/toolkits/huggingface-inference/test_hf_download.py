"""The download of a model: what is tried, what is told when it fails, with a stand-in for the hub's library."""

from __future__ import annotations

import errno
import sys
import types
from types import SimpleNamespace

import pytest
from sagemaker_huggingface_inference_toolkit import download, failures, handler_service
from sagemaker_huggingface_inference_toolkit.settings import HuggingFaceSettings
from sagemaker_inference.service import Place
from sagemaker_inference.settings import Settings

ERRORS = {
    "RepositoryNotFoundError": (Exception,),
    "GatedRepoError": ("RepositoryNotFoundError",),
    "RevisionNotFoundError": (Exception,),
    "EntryNotFoundError": (Exception,),
    "LocalEntryNotFoundError": ("EntryNotFoundError",),
}


def read(**environ):
    return HuggingFaceSettings.read({"HF_MODEL_ID": "org/name", **environ})


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A stand-in for huggingface_hub: `hub.answers` are what downloads give or raise, `hub.cached` what is there."""
    library, raised, constants = (types.ModuleType(f"huggingface_hub{end}") for end in ("", ".errors", ".constants"))
    for name, bases in ERRORS.items():
        setattr(
            raised, name, type(name, tuple(getattr(raised, one) if isinstance(one, str) else one for one in bases), {})
        )
    constants.HF_HUB_CACHE = str(tmp_path / "cache")
    files = [SimpleNamespace(rfilename=name, size=1 << 20) for name in ("model.safetensors", "pytorch_model.bin")]
    found = SimpleNamespace(answers=["fetched"], cached=None, asked=[], paused=[], errors=raised, size=files)

    def snapshot(repository, *, revision, local_files_only=False, **given):
        if local_files_only:
            if found.cached is None:
                raise raised.LocalEntryNotFoundError("nothing")
            return found.cached
        found.asked.append(given)
        answer = found.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    library.HfApi = lambda: SimpleNamespace(model_info=lambda *_, **given: SimpleNamespace(siblings=files))
    library.snapshot_download, library.errors, library.constants = snapshot, raised, constants
    for module in (library, raised, constants):
        monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setattr(download.time, "sleep", found.paused.append)
    monkeypatch.setattr(download.shutil, "disk_usage", lambda folder: SimpleNamespace(free=3 << 30))
    return found


def down(tmp_path, settings, environ=None):
    link = tmp_path / "models" / "org__name"
    download.download(settings, str(link), environ or {})
    return str(link.readlink())


def test_the_link_leads_to_what_was_downloaded(hub, tmp_path, capfd):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "org__name").symlink_to("/older")
    assert down(tmp_path, read()) == "fetched"
    assert hub.asked == [{"token": False, "ignore_patterns": ["pytorch_model.bin"]}], "no token of somebody else's"
    told = capfd.readouterr().err
    assert "Downloading org/name: 1 files, 1.0 MiB" in told
    assert "org/name is at fetched" in told


def test_what_may_pass_is_tried_again(hub, tmp_path, capfd):
    hub.answers = [ConnectionError("reset"), TimeoutError("late"), "fetched"]
    assert down(tmp_path, read()) == "fetched"
    assert hub.paused == [1.0, 4.0]
    assert (
        "late. Without internet, give the model as ModelDataUrl, or a mirror by HF_ENDPOINT. Trying again in 4 s."
        in (capfd.readouterr().err)
    )


@pytest.mark.parametrize("cached", ["older", None])
def test_after_three_tries_the_copy_in_the_cache_serves(hub, tmp_path, cached):
    hub.answers, hub.cached = [ConnectionError("reset")] * 3, cached
    if cached:
        assert down(tmp_path, read()) == cached
    else:
        with pytest.raises(
            download.DownloadError, match=r"could not be downloaded from https://huggingface\.co: reset"
        ):
            down(tmp_path, read())
    assert len(hub.asked) == 3


def test_what_stays_is_not_tried_again_and_no_older_copy_hides_it(hub, tmp_path):
    hub.answers, hub.cached = [hub.errors.RevisionNotFoundError("404")], "older"
    with pytest.raises(download.DownloadError, match="HF_MODEL_REVISION=v1: org/name has no such branch"):
        down(tmp_path, read(HF_MODEL_REVISION="v1"))


def test_a_fault_of_our_own_is_not_called_a_failed_download(hub, tmp_path):
    hub.answers = [ZeroDivisionError()]
    with pytest.raises(ZeroDivisionError):
        down(tmp_path, read())


@pytest.mark.parametrize("cached", ["older", None])
def test_offline_only_the_cache_is_looked_at(hub, tmp_path, cached):
    hub.cached = cached
    settings, environ = read(HF_HUB_OFFLINE="1"), {"HF_HUB_OFFLINE": "1"}
    if cached:
        assert down(tmp_path, settings, environ) == cached
    else:
        with pytest.raises(download.DownloadError, match="HF_HUB_OFFLINE forbids to download it"):
            down(tmp_path, settings, environ)
    assert hub.asked == []


def test_a_cache_that_cannot_be_written_is_used(hub, tmp_path, monkeypatch):
    monkeypatch.setattr(download.places, "writable", lambda folder: False)
    hub.cached = "brought by the image"
    assert down(tmp_path, read()) == "brought by the image"
    assert hub.asked == []


def test_a_model_that_does_not_fit_is_refused_before_it_is_fetched(hub, tmp_path):
    hub.size[0].size = 5 << 30
    with pytest.raises(download.DownloadError, match=r"needs 5\.0 GiB more, and 3\.0 GiB are free .* by HF_HOME"):
        down(tmp_path, read())
    assert hub.asked == []


@pytest.mark.parametrize(
    ("environ", "code", "said"), [({}, 3, "names no repository"), ({"HF_MODEL_ID": "org/name"}, 0, "is at fetched")]
)
def test_the_program_ends_with_its_reason(hub, tmp_path, monkeypatch, capfd, environ, code, said):
    monkeypatch.setattr(download.signal, "signal", lambda *_: None)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert download.main([str(tmp_path / "link")]) == code
    assert said in capfd.readouterr().err


def with_status(kind, status):
    error = kind("first line.\nsecond line")
    error.response = SimpleNamespace(status_code=status)
    return error


@pytest.mark.parametrize(
    ("name", "status", "said", "passing"),
    [
        ("GatedRepoError", 403, "is gated: accept its conditions at https://huggingface.co/org/name", False),
        ("RepositoryNotFoundError", 401, "has no such model, or hides it", False),
        ("EntryNotFoundError", 404, "lists a file that it does not have: first line", False),
        (None, 401, "refuses it with status 401: give a token that may read it by HF_TOKEN", False),
        (None, 404, "answers with status 404: first line", False),
        (None, 408, "status 408", True),
        (None, 429, "status 429", True),
        (None, 499, "status 499", False),
        (None, 500, "status 500", True),
    ],
)
def test_answers_of_the_hub(hub, name, status, said, passing):
    kind = getattr(hub.errors, name) if name else type("HTTPError", (OSError,), {})
    found = failures.of(with_status(kind, status), read(), {}, "/cache")
    assert said in found.reason
    assert found.passing is passing


def test_a_token_that_is_not_enough_is_named_by_its_variable(hub):
    error = with_status(hub.errors.GatedRepoError, 403)
    assert "another token than that of HF_TOKEN" in failures.of(error, read(HF_TOKEN="hf_secret"), {}, "/").reason


class Lost(Exception):
    """A lost connection, as one of the hub's libraries says it."""


Lost.__module__ = "httpx._exceptions"


@pytest.mark.parametrize(
    ("error", "said", "passing"),
    [
        (OSError(errno.ENOSPC, "full"), "3.0 GiB are free at /cache. Name a larger disk", False),
        (PermissionError(errno.EACCES, "denied"), "Name a folder that can be written to", False),
        (Lost("reset"), "could not be downloaded from http://mirror: reset", True),
        (Lost(), "could not be downloaded from http://mirror: Lost", True),
    ],
)
def test_failures_of_this_side(hub, error, said, passing):
    found = failures.of(error, read(), {"HF_ENDPOINT": "http://mirror"}, "/cache")
    assert said in found.reason
    assert found.passing is passing


def test_a_full_disk_is_found_behind_another_error(hub):
    error = RuntimeError("cannot write")
    error.__cause__ = OSError(errno.EDQUOT, "quota")
    assert "does not fit" in failures.of(error, read(), {}, "/cache").reason


@pytest.mark.parametrize(
    ("count", "said"),
    [(0, "0.0 MiB"), ((1 << 30) - (1 << 20), "1023.0 MiB"), (1 << 30, "1.0 GiB"), (5 << 29, "2.5 GiB")],
)
def test_sizes_are_told_in_units_that_fit(count, said):
    assert failures.size(count) == said


@pytest.mark.parametrize(("workers", "alone"), [("1", True), ("2", False)])
@pytest.mark.parametrize(("loaded", "folder"), [("/models/org__name", "/models/org__name"), ("", "archive")])
def test_a_service_loads_the_hub_s_model_else_the_archive_s(monkeypatch, tmp_path, workers, alone, loaded, folder):
    made = []

    class Handler:
        def __init__(self, settings, *, alone):
            made.append(alone)

        def default_model_fn(self, model_dir, context=None):
            made.append(model_dir)
            return "M"

        def default_input_fn(self, data, kind, context=None):
            return data

        default_predict_fn = default_output_fn = default_input_fn

    monkeypatch.setattr(handler_service, "HuggingFaceInferenceHandler", Handler)
    monkeypatch.setenv("HF_MODEL_ID", "org/name")
    monkeypatch.setenv(handler_service.places.LOADED_FOLDER, loaded)
    settings = Settings.read({"SAGEMAKER_MODEL_SERVER_WORKERS": workers, "SAGEMAKER_BASE_DIR": str(tmp_path)})
    handler_service.service(settings, Place("archive"))
    assert made == [alone, folder]
