"""Which task a model folder is served with."""

from __future__ import annotations

import pytest
from sagemaker_huggingface_inference_toolkit import pipelines, tasks

LIBRARY = ("text-classification", "text-generation", "feature-extraction", "fill-mask")
NAMES = tasks.known(LIBRARY, pipelines.OWN)

#: The table of the reference, with its additions.
ARCHITECTURES = {
    "TapasForQuestionAnswering": "table-question-answering",
    "BertForQuestionAnswering": "question-answering",
    "BertForTokenClassification": "token-classification",
    "RobertaForSequenceClassification": "text-classification",
    "BertForMultipleChoice": "multiple-choice",
    "DistilBertForMaskedLM": "fill-mask",
    "LlamaForCausalLM": "text-generation",
    "GPT2LMHeadModel": "text-generation",
    "T5ForConditionalGeneration": "text2text-generation",
    "MarianMTModel": "text2text-generation",
    "EncoderDecoderModel": "text2text-generation",
    "T5WithLMHeadModel": "text2text-generation",
    "ViTForImageClassification": "image-classification",
    "DetrForObjectDetection": "object-detection",
    "ASTForAudioClassification": "audio-classification",
    "Wav2Vec2ForCTC": "automatic-speech-recognition",
    "Wav2Vec2ForSequenceClassification": "audio-classification",
    "WhisperForConditionalGeneration": "automatic-speech-recognition",
    "VisionEncoderDecoderModel": "image-to-text",
    "SpeechEncoderDecoderModel": "automatic-speech-recognition",
    "ViltForQuestionAnswering": "visual-question-answering",
    "LayoutLMv3ForQuestionAnswering": "document-question-answering",
    "CLIPModel": "zero-shot-image-classification",
    "BertModel": "feature-extraction",
    "ViTModel": "image-feature-extraction",
    "Swin2SRForImageSuperResolution": "image-to-image",
}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_the_longest_known_end_of_an_architecture_wins(architecture):
    assert tasks.from_architecture(architecture) == ARCHITECTURES[architecture]


def test_an_unknown_architecture_has_no_task():
    assert tasks.from_architecture("Something") is None


def test_every_own_task_and_alias_is_a_known_name():
    assert set(pipelines.OWN) <= set(NAMES)
    assert set(tasks.ALIASES) <= set(NAMES)


def test_the_first_architecture_counts(model):
    folder = model(config_json={"architectures": ["BertForMaskedLM", "BertForTokenClassification"]})
    assert tasks.infer(folder, NAMES) == "fill-mask"


def test_diffusion_models_have_an_index_instead(model):
    assert tasks.infer(model(model_index_json={"_class_name": "StableDiffusionPipeline"}), NAMES) == "text-to-image"


def test_the_configuration_goes_before_the_index(model):
    folder = model(config_json={"architectures": ["BertForMaskedLM"]}, model_index_json={})
    assert tasks.infer(folder, NAMES) == "fill-mask"


@pytest.mark.parametrize("architecture", ["BertModel", "MPNetForMaskedLM", "Qwen3ForCausalLM", "Unknown"])
def test_models_of_sentence_transformers_are_known_by_their_modules(model, architecture):
    folder = model(config_json={"architectures": [architecture]}, modules_json=[])
    assert tasks.infer(folder, NAMES) == "sentence-embeddings"


def test_a_classifier_stays_one_whatever_lies_beside_it(model):
    folder = model(config_json={"architectures": ["BertForSequenceClassification"]}, modules_json=[])
    assert tasks.infer(folder, NAMES) == "text-classification"


def test_a_generator_with_eyes_reads_images(model):
    config = {"architectures": ["LlavaForConditionalGeneration"], "vision_config": {}}
    assert tasks.infer(model(config_json=config), NAMES) == "image-text-to-text"


@pytest.mark.parametrize("config", [{}, {"architectures": None}, {"architectures": []}, {"architectures": [None]}])
def test_no_architecture_asks_for_the_task(model, config):
    with pytest.raises(tasks.TaskError, match=r"names no architecture.* Set HF_TASK to one of: .*question-answering"):
        tasks.infer(model(config_json=config), NAMES)


def test_an_unknown_architecture_is_named(model):
    with pytest.raises(tasks.TaskError, match=r"the architecture Odd, .* HF_TASK"):
        tasks.infer(model(config_json={"architectures": ["Odd"]}), NAMES)


def test_a_configuration_that_cannot_be_read_is_named(model):
    for text in ("{", "[]"):
        with pytest.raises(tasks.TaskError, match=r"config\.json"):
            tasks.infer(model(config_json=text), NAMES)


def test_an_empty_folder_says_what_is_missing(tmp_path):
    with pytest.raises(tasks.TaskError, match=r"is empty, and HF_MODEL_ID is not set"):
        tasks.infer(str(tmp_path), NAMES)
    with pytest.raises(tasks.TaskError, match=r"does not exist, and HF_MODEL_ID is not set"):
        tasks.infer(str(tmp_path / "none"), NAMES)


def test_an_archive_packed_with_its_folder_is_told(tmp_path):
    (tmp_path / "bert").mkdir()
    with pytest.raises(
        tasks.TaskError, match=r"it has: bert/\. Was the archive packed with the folder bert/ around it"
    ):
        tasks.infer(str(tmp_path), NAMES)


def test_an_unknown_task_gets_its_nearest_name():
    with pytest.raises(tasks.TaskError, match=r"HF_TASK=sumarization .* Did you mean summarization\?"):
        tasks.check("sumarization", NAMES)
    with pytest.raises(tasks.TaskError, match=r"multiple-choice models: give a model_fn"):
        tasks.check("multiple-choice", NAMES)


def test_translation_may_name_its_languages():
    tasks.check("translation_en_to_de", NAMES)
    assert tasks.base("translation_en_to_de") == "translation"
    for task in ("translation_en_de", "translation_en_to_", "summary_en_to_de"):
        assert tasks.base(task) == task
        with pytest.raises(tasks.TaskError):
            tasks.check(task, NAMES)


@pytest.mark.parametrize(("alias", "task"), tasks.ALIASES.items())
def test_aliases_mean_one_task(alias, task):
    assert tasks.canonical(alias) == task
