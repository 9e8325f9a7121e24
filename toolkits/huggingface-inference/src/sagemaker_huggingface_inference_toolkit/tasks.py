"""Which task a model folder is served with: the table from architectures to tasks, and the order of what is looked at.

Rules: docs/contract/huggingface-inference.md, rows task-*.
"""

from __future__ import annotations

import difflib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

TEXT_TO_IMAGE = "text-to-image"
SENTENCE_EMBEDDINGS = "sentence-embeddings"
CONVERSATIONAL = "conversational"

#: Ends of architecture names. The longest end that fits wins.
ARCHITECTURES_2_TASK: Mapping[str, str] = {
    "TapasForQuestionAnswering": "table-question-answering",
    "ForQuestionAnswering": "question-answering",
    "ForQuestionAnsweringSimple": "question-answering",
    "ForTokenClassification": "token-classification",
    "ForSequenceClassification": "text-classification",
    "ForMultipleChoice": "multiple-choice",
    "ForMaskedLM": "fill-mask",
    "XLMWithLMHeadModel": "fill-mask",
    "FlaubertWithLMHeadModel": "fill-mask",
    "ForCausalLM": "text-generation",
    "LMHeadModel": "text-generation",
    "GPT2LMHeadModel": "text-generation",
    "ForConditionalGeneration": "text2text-generation",
    "MTModel": "text2text-generation",
    "MarianMTModel": "text2text-generation",
    "EncoderDecoderModel": "text2text-generation",
    "T5WithLMHeadModel": "text2text-generation",
    # Images
    "ForImageClassification": "image-classification",
    "ForImageClassificationWithTeacher": "image-classification",
    "ForObjectDetection": "object-detection",
    "OwlViTForObjectDetection": "zero-shot-object-detection",
    "Owlv2ForObjectDetection": "zero-shot-object-detection",
    "GroundingDinoForObjectDetection": "zero-shot-object-detection",
    "ForImageSegmentation": "image-segmentation",
    "ForInstanceSegmentation": "image-segmentation",
    "ForSemanticSegmentation": "image-segmentation",
    "ForUniversalSegmentation": "image-segmentation",
    "SegformerForSemanticSegmentation": "image-segmentation",
    "DetrForSegmentation": "image-segmentation",
    "ForDepthEstimation": "depth-estimation",
    "ForImageSuperResolution": "image-to-image",
    "ForVideoClassification": "video-classification",
    "ForMaskGeneration": "mask-generation",
    "SamModel": "mask-generation",
    # Images and text
    "VisionEncoderDecoderModel": "image-to-text",
    "BlipForConditionalGeneration": "image-to-text",
    "Blip2ForConditionalGeneration": "image-to-text",
    "InstructBlipForConditionalGeneration": "image-to-text",
    "GitForCausalLM": "image-to-text",
    "Kosmos2ForConditionalGeneration": "image-to-text",
    "Pix2StructForConditionalGeneration": "image-to-text",
    "ViltForQuestionAnswering": "visual-question-answering",
    "BlipForQuestionAnswering": "visual-question-answering",
    "LayoutLMForQuestionAnswering": "document-question-answering",
    "LayoutLMv2ForQuestionAnswering": "document-question-answering",
    "LayoutLMv3ForQuestionAnswering": "document-question-answering",
    "CLIPModel": "zero-shot-image-classification",
    "AltCLIPModel": "zero-shot-image-classification",
    "AlignModel": "zero-shot-image-classification",
    "SiglipModel": "zero-shot-image-classification",
    "Siglip2Model": "zero-shot-image-classification",
    # Audio
    "ForAudioClassification": "audio-classification",
    "Data2VecAudioForSequenceClassification": "audio-classification",
    "HubertForSequenceClassification": "audio-classification",
    "SEWForSequenceClassification": "audio-classification",
    "SEWDForSequenceClassification": "audio-classification",
    "UniSpeechForSequenceClassification": "audio-classification",
    "UniSpeechSatForSequenceClassification": "audio-classification",
    "Wav2Vec2BertForSequenceClassification": "audio-classification",
    "Wav2Vec2ConformerForSequenceClassification": "audio-classification",
    "Wav2Vec2ForSequenceClassification": "audio-classification",
    "WavLMForSequenceClassification": "audio-classification",
    "ForCTC": "automatic-speech-recognition",
    "ForRNNT": "automatic-speech-recognition",
    "ForTDT": "automatic-speech-recognition",
    "ForSpeechSeq2Seq": "automatic-speech-recognition",
    "MoonshineForConditionalGeneration": "automatic-speech-recognition",
    "Speech2TextForConditionalGeneration": "automatic-speech-recognition",
    "SpeechEncoderDecoderModel": "automatic-speech-recognition",
    "SpeechT5ForSpeechToText": "automatic-speech-recognition",
    "WhisperForConditionalGeneration": "automatic-speech-recognition",
    "ClapModel": "zero-shot-audio-classification",
    "BarkModel": "text-to-audio",
    "ForTextToSpeech": "text-to-audio",
    "ForTextToWaveform": "text-to-audio",
    "MusicgenForConditionalGeneration": "text-to-audio",
    "VitsModel": "text-to-audio",
    # Vectors
    "Model": "feature-extraction",
    "BeitModel": "image-feature-extraction",
    "ConvNextModel": "image-feature-extraction",
    "ConvNextV2Model": "image-feature-extraction",
    "DeiTModel": "image-feature-extraction",
    "Dinov2Model": "image-feature-extraction",
    "Dinov2WithRegistersModel": "image-feature-extraction",
    "DINOv3ViTModel": "image-feature-extraction",
    "ResNetModel": "image-feature-extraction",
    "SwinModel": "image-feature-extraction",
    "ViTModel": "image-feature-extraction",
}

ALIASES: Mapping[str, str] = {
    "sentiment-analysis": "text-classification",
    "ner": "token-classification",
    "vqa": "visual-question-answering",
    "text-to-speech": "text-to-audio",
    "sentence-similarity": SENTENCE_EMBEDDINGS,
}

#: What a folder of sentence-transformers looks like to the table alone.
_UNDER_SENTENCE_TRANSFORMERS = ("feature-extraction", "fill-mask", "text-generation", "text2text-generation")

IMAGE_TASKS = frozenset(
    {
        "depth-estimation",
        "document-question-answering",
        "image-classification",
        "image-feature-extraction",
        "image-segmentation",
        "image-text-to-text",
        "image-to-image",
        "image-to-text",
        "mask-generation",
        "object-detection",
        "visual-question-answering",
        "zero-shot-image-classification",
        "zero-shot-object-detection",
    }
)
AUDIO_TASKS = frozenset({"audio-classification", "automatic-speech-recognition", "zero-shot-audio-classification"})
#: Tasks whose requests must name candidate_labels.
LABELLED_TASKS = frozenset(
    {
        "zero-shot-audio-classification",
        "zero-shot-classification",
        "zero-shot-image-classification",
        "zero-shot-object-detection",
    }
)
TRANSLATION = "translation"


class TaskError(ValueError):
    """No task, or none that is known. The text says what was looked at and what to set."""


def canonical(task: str) -> str:
    """The task's one name: aliases resolved, ``translation_xx_to_yy`` kept."""
    return ALIASES.get(task, task)


def base(task: str) -> str:
    """``translation`` of ``translation_xx_to_yy``, else the task itself."""
    return TRANSLATION if is_language_pair(task) else task


def is_language_pair(task: str) -> bool:
    words = task.split("_")
    return len(words) == 4 and words[0] == TRANSLATION and words[2] == "to" and all(words)


def known(library: Collection[str], own: Collection[str]) -> list[str]:
    """The names that HF_TASK may have, sorted."""
    return sorted({*library, *own, *ALIASES})


def check(task: str, names: Collection[str]) -> None:
    """Raises TaskError, with the nearest name, for a task that nothing here serves."""
    if task in names or (is_language_pair(task) and TRANSLATION in names):
        return
    if task == "multiple-choice":
        raise TaskError(
            "There is no pipeline for multiple-choice models: give a model_fn and a predict_fn in code/inference.py."
        )
    near = difflib.get_close_matches(task, names, 1, 0.6)
    hint = f" Did you mean {near[0]}?" if near else ""
    raise TaskError(f"HF_TASK={task} is no task that this image serves.{hint} Tasks: {', '.join(sorted(names))}.")


def from_architecture(architecture: str) -> str | None:
    """The task of an architecture's name, by its longest known end."""
    fitting = [end for end in ARCHITECTURES_2_TASK if architecture.endswith(end)]
    return ARCHITECTURES_2_TASK[max(fitting, key=len)] if fitting else None


def infer(model_dir: str, names: Collection[str]) -> str:
    """The task of a model folder. Raises TaskError that says what the folder has and lists the tasks."""
    folder = Path(model_dir)
    config = _read(folder / "config.json")
    architecture = _architecture(config)
    task = from_architecture(architecture) if architecture else None
    if task == "text2text-generation" and isinstance((config or {}).get("vision_config"), dict):
        task = "image-text-to-text"
    if (folder / "modules.json").is_file() and (task is None or task in _UNDER_SENTENCE_TRANSFORMERS):
        return SENTENCE_EMBEDDINGS
    if task:
        return task
    if (folder / "model_index.json").is_file():
        return TEXT_TO_IMAGE
    raise TaskError(f"{_unknown(folder, config, architecture)} Set HF_TASK to one of: {', '.join(sorted(names))}.")


def _architecture(config: Mapping[str, Any] | None) -> str | None:
    listed = (config or {}).get("architectures")
    return listed[0] if isinstance(listed, list) and listed and isinstance(listed[0], str) else None


def _unknown(folder: Path, config: Mapping[str, Any] | None, architecture: str | None) -> str:
    if architecture:
        return f"config.json names the architecture {architecture}, for which no task is known."
    if config is not None:
        return "config.json names no architecture, so the task cannot be told from it."
    there = folder.is_dir()
    entries = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in folder.iterdir()) if there else []
    if not entries:
        return f"There is no model: {folder} {'is empty' if there else 'does not exist'}, and HF_MODEL_ID is not set."
    text = f"{folder} has neither config.json nor model_index.json, and no code/inference.py with a model_fn; it has: "
    text += f"{', '.join(entries[:20])}."
    if len(entries) == 1 and entries[0].endswith("/") and entries[0] != "code/":
        text += f" Was the archive packed with the folder {entries[0]} around it? Pack its contents instead."
    return text


def _read(path: Path) -> dict[str, Any] | None:
    """A JSON object; None when there is no such file. Raises TaskError for what is no JSON object."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise TaskError(f"{path} cannot be read: {error}.") from error
    if not isinstance(content, dict):
        raise TaskError(f"{path} must hold a JSON object.")
    return content
