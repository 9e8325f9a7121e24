"""Serves a tiny model of each task in this process, and prints what each request is answered, as JSON.

    python tasks_probe.py FOLDER

Run where transformers is: in an image, or by hand in an environment of another version.
"""

from __future__ import annotations

import base64
import io
import json
import math
import os
import struct
import sys
import traceback
import wave
from importlib import metadata
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

import tiny

JSON, CSV, LINES = "application/json", "text/csv", "application/jsonlines"
TEXT = "my dog lives in paris ."
LONG = "the house is in london and the river is in berlin . " * 2
QUESTION = {"question": "where is the river ?", "context": "the river is in berlin . the house is in london ."}
TABLE = {"query": "how old is the cat ?", "table": {"name": ["cat", "dog"], "one": ["1", "2"]}}


def picture(format_: str = "PNG", size: tuple[int, int] = (24, 24)) -> bytes:
    from PIL import Image

    image = Image.new("RGB", size, (200, 30, 30))
    image.putpixel((3, 3), (0, 0, 255))
    buffer = io.BytesIO()
    image.save(buffer, format=format_)
    return buffer.getvalue()


def sound(rate: int = 16000, seconds: float = 0.25) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        count = int(rate * seconds)
        samples = (int(12000 * math.sin(2 * math.pi * 440 * i / rate)) for i in range(count))
        file.writeframes(b"".join(struct.pack("<h", sample) for sample in samples))
    return buffer.getvalue()


def text64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def asked(inputs: Any, **parameters: Any) -> dict[str, Any]:
    return {"inputs": inputs, "parameters": parameters} if parameters else {"inputs": inputs}


def lines(*values: Any) -> str:
    return "\n".join(map(json.dumps, values)) + "\n"


Case = tuple[str, Any, str, str | None]
"""Name, body (a value for JSON, text or bytes as they are), content type, Accept."""


def cases() -> dict[str, list[Case]]:
    """What each model is asked."""
    image, audio = picture(), sound()
    short = {"max_new_tokens": 4, "num_beams": 1}
    generated: list[Case] = [
        ("text", asked(TEXT, max_new_tokens=5), JSON, None),
        ("list", asked([TEXT, LONG], max_new_tokens=5), JSON, None),
        ("batch", asked([TEXT, LONG], max_new_tokens=5, batch_size=2), JSON, None),
        ("parameters", asked(TEXT, max_new_tokens=3, num_return_sequences=2, num_beams=2), JSON, None),
        ("truncation", asked(LONG * 3, truncation=True, max_new_tokens=4), JSON, None),
        ("unknown parameter", asked(TEXT, no_such=1), JSON, None),
        ("no text", asked(5), JSON, None),
        ("csv answer", asked([TEXT, TEXT], max_length=6), JSON, CSV),
    ]
    standing: list[Case] = [
        ("own lengths", asked([TEXT, LONG]), JSON, None),
        ("csv", f"inputs\n{TEXT}\n", CSV, None),
    ]
    picked: list[Case] = [
        ("png", image, "image/png", None),
        ("jpeg", picture("JPEG"), "image/jpeg", None),
        ("any image", image, "image/x-image", None),
        ("base64", asked(text64(image)), JSON, None),
        ("data", asked(f"data:image/png;base64,{text64(image)}"), JSON, None),
        ("path", asked("/etc/passwd"), JSON, None),
        ("no image", b"nothing", "image/png", None),
    ]
    heard: list[Case] = [
        ("wav", audio, "audio/wave", None),
        ("other names", audio, "audio/x-wav", None),
        ("other rate", sound(rate=8000), "audio/wav", None),
        ("base64", asked(text64(audio)), JSON, None),
        ("path", asked("/etc/passwd"), JSON, None),
        ("no audio", b"nothing", "audio/wav", None),
    ]
    boxes = [["the", [0, 0, 50, 20]], ["name", [60, 0, 120, 20]], ["is", [130, 0, 150, 20]], ["berlin", [160, 0, 220, 20]]]
    question = {"question": "what is the name ?"}
    return {
        "text-classification": [
            ("text", asked(TEXT), JSON, None),
            ("list", asked([TEXT, LONG]), JSON, None),
            ("all scores", asked(TEXT, top_k=None), JSON, None),
            ("bare list", [TEXT, LONG], JSON, None),
            ("bare text", TEXT, JSON, None),
            ("charset", asked(TEXT), "Application/JSON; charset=UTF-8", "text/html, application/json;q=0.9, */*;q=0.1"),
            ("no type", asked(TEXT), "", None),
            ("csv", f"inputs\n{TEXT}\n\"{LONG}, yes\"\n", CSV, None),
            ("csv answer", asked([TEXT, LONG]), JSON, CSV),
            ("csv to lines", f"inputs\n{TEXT}\n{LONG}\n", CSV, LINES),
            ("csv without header", f"{TEXT}\n", CSV, None),
            ("lines", lines(asked(TEXT), asked(LONG), TEXT), LINES, None),
            ("lines to json", lines(asked(TEXT), asked(LONG)), LINES, JSON),
            ("lines with a fault", lines(asked(TEXT), asked({"no": "text"})), LINES, None),
            ("not acceptable", asked(TEXT), JSON, "text/html"),
            ("no image to give", asked(TEXT), JSON, "image/png"),
            ("unsupported", TEXT, "text/html", None),
            ("no json", "{", JSON, None),
            ("parameters no object", {"inputs": TEXT, "parameters": [1]}, JSON, None),
            ("too long", asked(LONG * 4), JSON, None),
            ("no text", asked(5), JSON, None),
            ("unicode", asked("né 日本 😀"), JSON, None),
        ],
        "zero-shot-classification": [
            ("list of labels", asked(TEXT, candidate_labels=["city", "dog"]), JSON, None),
            ("comma text", asked([TEXT, LONG], candidate_labels="city, dog", multi_label=True), JSON, None),
            ("no labels", asked(TEXT), JSON, None),
            ("csv", f"inputs\n{TEXT}\n", CSV, None),
            ("lines", lines(asked(TEXT, candidate_labels=["city", "dog"])), LINES, None),
        ],
        "token-classification": [
            ("text", asked(TEXT), JSON, None),
            ("list", asked([TEXT, TEXT]), JSON, None),
            ("grouped", asked(TEXT, aggregation_strategy="simple"), JSON, None),
        ],
        "question-answering": [
            ("one", asked(QUESTION), JSON, None),
            ("whole object", QUESTION, JSON, None),
            ("several", asked([QUESTION, {**QUESTION, "question": "where is the house ?"}]), JSON, None),
            ("top_k", asked(QUESTION, top_k=3), JSON, None),
            ("long", asked({**QUESTION, "context": LONG * 4}, top_k=4, doc_stride=8), JSON, None),
            ("impossible", asked(QUESTION, handle_impossible_answer=True, top_k=2), JSON, None),
            ("unaligned", asked(QUESTION, align_to_words=False, max_answer_len=2), JSON, None),
            ("no context", asked({"question": "where ?"}), JSON, None),
            ("csv", f"question,context\n{QUESTION['question']},{QUESTION['context']}\n" * 1, CSV, None),
            ("csv answer", asked([QUESTION, QUESTION]), JSON, CSV),
            ("lines", lines(asked(QUESTION), asked(QUESTION)), LINES, None),
        ],
        "fill-mask": [("text", asked("my [MASK] lives in paris ."), JSON, None), ("no mask", asked(TEXT), JSON, None)],
        "feature-extraction": [("text", asked("my dog"), JSON, None), ("list", asked(["my dog", TEXT]), JSON, None)],
        "sentence-embeddings": [
            ("text", asked(TEXT), JSON, None),
            ("list", asked([TEXT, "my dog", LONG * 4]), JSON, None),
            ("lines", lines(asked(TEXT), asked("my dog")), LINES, None),
            ("npy", asked([TEXT, "my dog"]), JSON, "application/x-npy"),
        ],
        "table-question-answering": [
            ("one", asked(TABLE), JSON, None),
            ("csv", "query,inputs\na,b\n", CSV, None),
        ],
        "text2text-generation": generated,
        "summarization": [*generated, *standing],
        "translation": [*generated, *standing, ("languages", asked(TEXT, src_lang="en", tgt_lang="de"), JSON, None)],
        "text-generation": [
            ("text", asked(TEXT, max_new_tokens=3, do_sample=False), JSON, None),
            ("list", asked([TEXT, TEXT], max_new_tokens=3, do_sample=False), JSON, None),
            (
                "chat",
                asked([{"role": "user", "content": "hello !"}], max_new_tokens=3, do_sample=False),
                JSON,
                None,
            ),
            ("csv answer", asked([TEXT, TEXT], max_new_tokens=3, do_sample=False), JSON, CSV),
        ],
        "conversational": [
            (
                "turns",
                asked(
                    {"past_user_inputs": ["hello ."], "generated_responses": ["hello you ."], "text": "who are you ?"},
                    **{**short, "do_sample": False},
                ),
                JSON,
                None,
            ),
            ("first", asked({"text": "hello ."}, max_new_tokens=3), JSON, None),
            ("no text", asked({"past_user_inputs": ["hello ."]}), JSON, None),
        ],
        "image-classification": [
            *picked,
            ("lines", lines(asked(text64(image)), asked(text64(image))), LINES, None),
        ],
        "image-segmentation": picked[:2],
        "object-detection": [picked[0], ("all", asked(text64(image), threshold=0.0), JSON, None)],
        "depth-estimation": picked[:1],
        "image-to-text": [("png", asked(text64(image), max_new_tokens=4), JSON, None), picked[0]],
        "image-to-image": [("json", image, "image/png", None), ("jpeg", image, "image/png", "image/jpeg")],
        "visual-question-answering": [
            ("one", asked({"image": text64(image), "question": "what is it ?"}), JSON, None),
            ("top_k", asked({"image": text64(image), "question": "what is it ?"}, top_k=1), JSON, None),
            ("no question", asked({"image": text64(image)}), JSON, None),
        ],
        "document-question-answering": [
            ("boxes", asked({"image": text64(picture(size=(240, 40))), **question, "word_boxes": boxes}), JSON, None),
        ],
        "zero-shot-image-classification": [
            ("labels", asked(text64(image), candidate_labels=["red house", "blue dog"]), JSON, None),
        ],
        "audio-classification": heard,
        "automatic-speech-recognition": heard,
        "text-to-audio": [("text", asked("hello"), JSON, None)],
        "text-to-image": [
            ("json", asked("a red house", num_inference_steps=1, height=8, width=8), JSON, None),
            ("png", asked("a red house", num_inference_steps=1, num_images_per_prompt=3), JSON, "image/png"),
        ],
    }


def ask(service: Any, body: Any, kind: str, accept: str | None) -> dict[str, Any]:
    from sagemaker_inference.service import Headers, Request

    if kind.partition(";")[0].lower() in (JSON, "") and body != "{":
        body = json.dumps(body)
    headers = {**({"Content-Type": kind} if kind else {}), **({"Accept": accept} if accept else {})}
    raw = body.encode() if isinstance(body, str) else body
    reply = service.handle(Request(raw, Headers.of(headers), "id"))
    content = bytes(reply.body)
    answered = dict(reply.headers)[b"content-type"].decode()
    text = answered.startswith(("application/json", "text/"))
    return {"status": reply.status, "type": answered, "body": content.decode() if text else text64(content)}


def load(model_dir: Path, **variables: str) -> Any:
    """The service of a model as a worker loads it."""
    from sagemaker_huggingface_inference_toolkit import handler_service
    from sagemaker_inference.service import Place
    from sagemaker_inference.settings import Settings

    for name in [name for name in os.environ if name.startswith("HF_TASK")]:
        del os.environ[name]
    os.environ.update(variables)
    return handler_service.service(Settings.read(), Place(str(model_dir)))


#: Tasks that no configuration tells.
NAMED = {
    "zero-shot-classification",
    "conversational",
    "summarization",
    "translation",
    "audio-classification",
    "document-question-answering",
}


def main(folder: Path) -> None:
    results: dict[str, Any] = {"transformers": metadata.version("transformers"), "replies": {}, "missing": {}}
    for task, asked_of_it in cases().items():
        try:
            made = tiny.make(task, folder / task)
        except ImportError as error:
            results["missing"][task] = str(error)
            continue
        try:
            service = load(made, **({"HF_TASK": task} if task in NAMED else {}))
            for name, body, kind, accept in asked_of_it:
                results["replies"][f"{task}: {name}"] = ask(service, body, kind, accept)
        except Exception:
            results["replies"][f"{task}: load"] = {"status": 0, "type": "", "body": traceback.format_exc()}
    print(json.dumps(results))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
