"""Asks our own pipelines and those of transformers 4.57 the same things, and says where they answer differently.

    python compare.py

Ends with 1 where they do, and where the installed library has none of them to compare with. Every request names its
length: the library's own default overrides the max_length that a model's author recorded, and ours does not.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import tiny
from sagemaker_huggingface_inference_toolkit import pipelines, transformers_utils
from sagemaker_huggingface_inference_toolkit.pipelines.source import Source

TEXT = "my dog lives in paris ."
LONG = "the house is in london and the river is in berlin . " * 2
WHERE = {"question": "where is the river ?", "context": "the river is in berlin . the house is in london ."}
LONG_WHERE = {**WHERE, "context": LONG * 4}

SHORT = {"max_new_tokens": 5}
TEXT_TO_TEXT = [
    (TEXT, SHORT),
    ([TEXT, LONG], SHORT),
    ([TEXT, LONG], {**SHORT, "batch_size": 2}),
    (TEXT, {"max_new_tokens": 3, "num_return_sequences": 2}),
    ([TEXT, LONG], {"max_new_tokens": 3, "num_return_sequences": 2, "num_beams": 3}),
    (LONG * 4, {**SHORT, "truncation": True}),
]
ASKED: dict[str, list[tuple[Any, dict[str, Any]]]] = {
    "question-answering": [
        (WHERE, {}),
        ([WHERE, LONG_WHERE], {}),
        (WHERE, {"top_k": 7}),
        (LONG_WHERE, {"top_k": 5, "doc_stride": 8}),
        (LONG_WHERE, {"max_seq_len": 32, "doc_stride": 4, "top_k": 20}),
        (WHERE, {"handle_impossible_answer": True, "top_k": 50}),
        (WHERE, {"align_to_words": False, "max_answer_len": 2, "top_k": 3}),
    ],
    "summarization": TEXT_TO_TEXT,
    "text2text-generation": TEXT_TO_TEXT,
    "translation": TEXT_TO_TEXT,
    "translation_en_to_de": TEXT_TO_TEXT,
}


def pictures() -> dict[str, list[tuple[Any, dict[str, Any]]]]:
    from PIL import Image

    image = Image.new("RGB", (24, 20), (200, 30, 30))
    asked = {"image": image, "question": "what is it ?"}
    return {
        "image-to-image": [(image, {})],
        "image-to-text": [(image, {"max_new_tokens": 5}), ([image, image], {"generate_kwargs": {"max_new_tokens": 3}})],
        "visual-question-answering": [(asked, {}), (asked, {"top_k": 2}), ([asked, asked], {})],
    }


def differences(task: str, ours: Callable[..., Any], theirs: Callable[..., Any], asked: Any) -> Iterator[str]:
    for inputs, parameters in asked:
        told, expected = ours(inputs, **parameters), theirs(inputs, **parameters)
        if not same(told, expected):
            yield f"{task} {parameters}:\n  ours   {told}\n  theirs {expected}"


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, float):
        return abs(ours - theirs) <= 1e-5 * max(abs(ours), abs(theirs))
    if isinstance(ours, dict):
        return list(ours) == list(theirs) and all(same(ours[key], theirs[key]) for key in ours)
    if isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(same, ours, theirs))
    if hasattr(ours, "tobytes"):  # an image
        return bool(ours.tobytes() == theirs.tobytes())
    return bool(ours == theirs)


def main() -> int:
    library = transformers_utils.library_tasks()
    compared = found = 0
    with tempfile.TemporaryDirectory() as folder:
        for task, asked in {**ASKED, **pictures()}.items():
            name = task.partition("_")[0]
            if name not in library:
                continue
            model = Path(folder) / name
            source = Source(str(model if model.exists() else tiny.make(name, model)), "cpu")
            theirs = transformers_utils.library_pipeline(task, source)
            for difference in differences(task, pipelines.make(task, source), theirs, asked):
                print(difference, flush=True)
                found += 1
            compared += len(asked)
    print(f"{compared} requests compared, {found} answered differently")
    return 1 if found or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
