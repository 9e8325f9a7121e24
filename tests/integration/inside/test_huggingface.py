"""Checks of the Hugging Face toolkit with the real transformers: a tiny model of each task. See run.py."""

from __future__ import annotations

import base64
import functools
import importlib.util
import io
import json
import math
import struct
import tempfile
import wave
from pathlib import Path
from typing import Any

import tiny
from sagemaker_huggingface_inference_toolkit import tasks, transformers_utils
from serving import Answer, Folder, Served, failing

SERVICE = "sagemaker_huggingface_inference_toolkit.handler_service"
JSON, CSV, LINES = "application/json", "text/csv", "application/jsonlines"
TEXT = "my dog lives in paris ."
LONG = "the house is in london and the river is in berlin . " * 2
WHERE = {"question": "where is the river ?", "context": "the river is in berlin . the house is in london ."}
#: Models whose configuration says nothing about their task.
NAMED = ("conversational", "document-question-answering", "summarization", "translation", "zero-shot-classification")
MODELS = Path(tempfile.mkdtemp())


@functools.cache
def served(task: str, name: str = "") -> Served:
    """The service of the tiny model of a task. name: HF_TASK, where it is not the task itself or nothing."""
    folder = MODELS / task / "model"
    if not folder.exists():
        tiny.make(task, folder)
    return load(folder, name or (task if task in NAMED else ""))


def load(folder: Path, task: str = "", **environment: str) -> Served:
    held = Folder.__new__(Folder)
    held.base, held.model = folder.parent, folder
    return held.load(SERVICE, HF_TASK=task, **environment)


def ask(task: str, inputs: Any, accept: str = "", **parameters: Any) -> Any:
    """What a JSON request is answered, where it is answered well."""
    answer = served(task).ask(body(inputs, **parameters), JSON, accept)
    assert answer.status == 200, answer.body
    return answer if accept else answer.json


def body(inputs: Any, **parameters: Any) -> str:
    return json.dumps({"inputs": inputs, "parameters": parameters} if parameters else {"inputs": inputs})


def lines(*values: Any) -> str:
    return "\n".join(map(json.dumps, values)) + "\n"


def refused(answer: Answer, *said: str, status: int = 400) -> None:
    assert answer.status == status, (answer.status, answer.body)
    missing = [text for text in said if text not in answer.message]
    assert not missing, (missing, answer.message)


def picture(format_: str = "PNG", size: tuple[int, int] = (24, 24)) -> bytes:
    from PIL import Image

    image = Image.new("RGB", size, (200, 30, 30))
    image.putpixel((3, 3), (0, 0, 255))
    buffer = io.BytesIO()
    image.save(buffer, format=format_)
    return buffer.getvalue()


def opened(content: bytes) -> Any:
    from PIL import Image

    return Image.open(io.BytesIO(content))


def sound(rate: int = 16000, seconds: float = 0.25) -> bytes:
    buffer = io.BytesIO()
    with wave.open(buffer, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        samples = (int(12000 * math.sin(2 * math.pi * 440 * i / rate)) for i in range(int(rate * seconds)))
        file.writeframes(b"".join(struct.pack("<h", sample) for sample in samples))
    return buffer.getvalue()


def text64(content: bytes) -> str:
    return base64.b64encode(content).decode()


def are_scores(answers: Any, *keys: str) -> None:
    assert isinstance(answers, list), answers
    assert answers, answers
    for answer in answers:
        assert set(answer) == set(keys), answer
        assert isinstance(answer["score"], float), answer


def test_text_classification() -> None:
    one = ask("text-classification", TEXT)
    are_scores(one, "label", "score")
    assert len(one) == 1
    assert one[0]["label"] in ("NEGATIVE", "POSITIVE")
    several = ask("text-classification", [TEXT, LONG])
    are_scores(several, "label", "score")
    assert several[0] == one[0]
    assert len(several) == 2
    every = ask("text-classification", TEXT, top_k=None)
    assert sorted(answer["label"] for answer in every) == ["NEGATIVE", "POSITIVE"]


def test_values_without_inputs_are_the_inputs() -> None:
    model = served("text-classification")
    one = ask("text-classification", TEXT)
    assert model.ask(json.dumps(TEXT)).json == one
    assert model.ask(json.dumps([TEXT, LONG])).json == ask("text-classification", [TEXT, LONG])
    assert model.ask(json.dumps({"inputs": TEXT, "other": 1})).json == one
    assert served("question-answering").ask(json.dumps(WHERE)).json == ask("question-answering", WHERE)
    refused(model.ask('{"inputs": "a", "parameters": [1]}'), "parameters must be a JSON object")


def test_types_of_requests_and_answers() -> None:
    model = served("text-classification")
    one = ask("text-classification", TEXT)[0]
    answer = model.ask(body(TEXT), "Application/JSON; charset=UTF-8", "text/html, application/json;q=0.9, */*;q=0.1")
    assert (answer.json, answer.type) == ([one], JSON)
    assert model.ask(body(TEXT), None).json == [one]
    assert b": " not in answer.body
    refused(model.ask(TEXT, "text/html"), "'text/html' is not supported", status=415)
    refused(model.ask(body(TEXT), JSON, "text/html"), "'text/html' is not supported", status=406)
    refused(model.ask(body(TEXT), JSON, "image/png"), "'image/png' is not supported", status=406)
    refused(model.ask("{"), "The body is no JSON", "line 1")


def test_csv() -> None:
    model = served("text-classification")
    expected = ask("text-classification", [TEXT, LONG])
    table = f'inputs\n{TEXT}\n"{LONG}"\n'
    assert model.ask(table, CSV).json == expected
    rows = "".join(f"{answer['label']},{answer['score']}\n" for answer in expected)
    assert model.ask(table, "text/csv; charset=utf-8", CSV).body.decode() == "label,score\n" + rows
    answer = model.ask(table, CSV, LINES)
    assert [json.loads(line) for line in answer.body.splitlines()] == expected
    refused(model.ask(f"{TEXT}\n", CSV), "question, context, inputs")
    questions = f"question,context\n{WHERE['question']},{WHERE['context']}\n" * 1
    assert served("question-answering").ask(questions, CSV).json == ask("question-answering", WHERE)
    told = served("question-answering").ask(body([WHERE, WHERE]), JSON, CSV).body.decode().splitlines()
    assert told[0] == "score,start,end,answer"
    assert told[1] == told[2]
    generated = served("text-generation").ask(body([TEXT, TEXT], max_new_tokens=2, do_sample=False), JSON, CSV)
    assert generated.body.decode().splitlines()[0] == "generated_text"
    assert len(generated.body.decode().splitlines()) == 3
    for task in ("zero-shot-classification", "table-question-answering"):
        refused(served(task).ask(f"inputs\n{TEXT}\n", CSV), f"{task} cannot be asked by CSV")


def test_json_lines_are_answered_line_by_line() -> None:
    model = served("text-classification")
    expected = [ask("text-classification", text) for text in (TEXT, LONG, TEXT)]
    for kind in (LINES, "application/x-jsonlines", "application/jsons; charset=utf-8"):
        answer = model.ask(lines({"inputs": TEXT}, {"inputs": LONG}, TEXT), kind)
        assert answer.type == LINES
        assert [json.loads(line) for line in answer.body.decode().split("\n")] == expected
    assert model.ask(lines({"inputs": TEXT}), LINES, JSON).json == expected[:1]
    refused(model.ask(lines({"inputs": TEXT}, {"inputs": 5}), LINES), "Record 2:")
    labels = {"inputs": TEXT, "parameters": {"candidate_labels": ["city", "dog"]}}
    answer = served("zero-shot-classification").ask(lines(labels, labels), LINES)
    assert len(answer.body.splitlines()) == 2
    pictures = served("image-classification").ask(lines({"inputs": text64(picture())}, text64(picture())), LINES)
    first, second = pictures.body.splitlines()
    assert first == second


def test_requests_that_a_pipeline_cannot_use_are_400() -> None:
    model = served("text-classification")
    refused(model.ask(body(5)), "cannot be used for text-classification")
    refused(model.ask(body(LONG * 4)), "98 tokens is longer than the 64 of the model", "truncation")
    assert model.ask(body(LONG * 4, truncation=True)).status == 200
    refused(served("fill-mask").ask(body(TEXT)), "mask_token")
    refused(served("text2text-generation").ask(body(TEXT, no_such=1)), "no_such")
    refused(served("zero-shot-classification").ask(body(TEXT)), "parameters.candidate_labels")


def test_zero_shot_classification() -> None:
    one = ask("zero-shot-classification", TEXT, candidate_labels=["city", "dog"])
    assert one["sequence"] == TEXT
    assert sorted(one["labels"]) == ["city", "dog"]
    assert math.isclose(sum(one["scores"]), 1, rel_tol=1e-5)
    assert ask("zero-shot-classification", TEXT, candidate_labels="city, dog") == one
    assert len(ask("zero-shot-classification", [TEXT, LONG], candidate_labels="city,dog", multi_label=True)) == 2


def test_token_classification() -> None:
    answers = ask("token-classification", TEXT)
    are_scores(answers, "entity", "score", "index", "word", "start", "end")
    grouped = ask("token-classification", TEXT, aggregation_strategy="simple")
    assert {answer["entity_group"] for answer in grouped} <= {"PER", "LOC"}


def test_fill_mask() -> None:
    answers = ask("fill-mask", "my [MASK] lives in paris .")
    are_scores(answers, "score", "token", "token_str", "sequence")
    assert len(answers) == 5


def test_question_answering() -> None:
    one = ask("question-answering", WHERE)
    assert set(one) == {"score", "start", "end", "answer"}
    assert WHERE["context"][one["start"] : one["end"]] == one["answer"]
    three = ask("question-answering", WHERE, top_k=3)
    assert len(three) == 3
    assert three[0] == one
    assert three == sorted(three, key=lambda answer: -answer["score"])
    other = {**WHERE, "question": "where is the house ?"}
    assert ask("question-answering", [WHERE, other])[0] == one
    long = {**WHERE, "context": LONG * 4}
    for answer in ask("question-answering", long, top_k=4, doc_stride=8):
        assert long["context"][answer["start"] : answer["end"]] == answer["answer"]
    impossible = ask("question-answering", WHERE, handle_impossible_answer=True, top_k=1000)
    assert [answer for answer in impossible if answer["answer"] == ""]
    short = ask("question-answering", WHERE, max_answer_len=1, align_to_words=False, top_k=5)
    assert all(" " not in answer["answer"] for answer in short)
    refused(served("question-answering").ask(body({"question": "where ?"})), "context")
    refused(served("question-answering").ask(body("where ?")), "ValueError")


def test_table_question_answering() -> None:
    table = {"query": "how old is the cat ?", "table": {"name": ["cat", "dog"], "one": ["1", "2"]}}
    answer = ask("table-question-answering", table)
    assert {"answer", "coordinates", "cells"} <= set(answer)


def check_text_to_text(task: str, key: str) -> None:
    one = ask(task, TEXT, max_new_tokens=5)
    assert [set(answer) for answer in one] == [{key}]
    assert isinstance(one[0][key], str)
    two = ask(task, [TEXT, LONG], max_new_tokens=5)
    assert two[0] == one[0]
    assert [set(answer) for answer in two] == [{key}] * 2
    assert len(ask(task, TEXT, max_new_tokens=3, num_beams=2, num_return_sequences=2)) == 2
    assert ask(task, LONG * 3, truncation=True, max_new_tokens=2)
    refused(served(task).ask(body(5)), "TypeError")


def test_text2text_generation() -> None:
    check_text_to_text("text2text-generation", "generated_text")


def test_summarization_keeps_to_its_authors_parameters() -> None:
    check_text_to_text("summarization", "summary_text")
    if "summarization" in transformers_utils.library_tasks():
        return  # transformers 4.57 overrides the author's length by one of its own
    expected = ask("text2text-generation", f"summarize : {TEXT}", max_length=12, num_beams=2)[0]["generated_text"]
    assert ask("summarization", TEXT)[0]["summary_text"] == expected


def test_translation_keeps_to_its_authors_parameters() -> None:
    check_text_to_text("translation", "translation_text")
    if "translation" in transformers_utils.library_tasks():
        return
    asked = f"translate english to german : {TEXT}"
    expected = ask("text2text-generation", asked, max_length=10, num_beams=3)[0]["generated_text"]
    assert ask("translation", TEXT) == [{"translation_text": expected}]
    assert served("translation", "translation_en_to_de").ask(body(TEXT)).json == [{"translation_text": expected}]
    assert ask("translation", TEXT, src_lang="en", tgt_lang="de") == [{"translation_text": expected}]


def test_text_generation_and_chat() -> None:
    (one,) = ask("text-generation", TEXT, max_new_tokens=3, do_sample=False)
    assert one["generated_text"].startswith(TEXT)
    several = ask("text-generation", [TEXT, TEXT], max_new_tokens=3, do_sample=False)
    assert several == [[one], [one]]
    (chat,) = ask("text-generation", [{"role": "user", "content": "hello !"}], max_new_tokens=3, do_sample=False)
    assert [message["role"] for message in chat["generated_text"]] == ["user", "assistant"]


def test_conversational_is_a_chat() -> None:
    turns = {"past_user_inputs": ["hello ."], "generated_responses": ["hello you ."], "text": "who are you ?"}
    answer = ask("conversational", turns, max_new_tokens=4, do_sample=False)
    assert set(answer) == {"generated_text", "conversation"}
    assert answer["conversation"] == {
        "past_user_inputs": ["hello .", "who are you ?"],
        "generated_responses": ["hello you .", answer["generated_text"]],
    }
    again = {**answer["conversation"], "text": "yes ?"}
    assert len(ask("conversational", again, max_new_tokens=2)["conversation"]["generated_responses"]) == 3
    refused(served("conversational").ask(body({"past_user_inputs": ["hello ."]})), "{text, past_user_inputs")
    refused(served("conversational").ask(body({**turns, "generated_responses": []})), "same length")


def test_feature_extraction_is_by_tokens() -> None:
    one = ask("feature-extraction", "my dog")
    assert [len(one), len(one[0]), len(one[0][0])] == [1, 4, 16]
    two = ask("feature-extraction", ["my dog", TEXT])
    assert [len(two), len(two[0]), len(two[1]), len(two[1][0])] == [2, 4, 8, 16]
    assert two[0] == one[0]


def test_sentence_embeddings_are_recognised_and_pooled() -> None:
    import numpy

    one = ask("sentence-embeddings", TEXT)
    assert [len(one), len(one[0])] == [1, 4]
    assert math.isclose(sum(value * value for value in one[0]), 1, rel_tol=1e-5)
    several = ask("sentence-embeddings", [TEXT, "my dog", LONG * 4])
    assert numpy.allclose(several[0], one[0], atol=1e-6)
    cut = ask("sentence-embeddings", LONG)
    assert numpy.allclose(several[2], cut[0], atol=1e-6)  # both longer than the model's 12 tokens
    answer = ask("sentence-embeddings", [TEXT, "my dog"], accept="application/x-npy")
    assert numpy.load(io.BytesIO(answer.body)).shape == (2, 4)


def test_sentence_embeddings_equal_those_of_sentence_transformers() -> None:
    import numpy
    from sentence_transformers import SentenceTransformer

    ours = ask("sentence-embeddings", [TEXT, "my dog", LONG * 4])
    theirs = SentenceTransformer(str(MODELS / "sentence-embeddings" / "model"), device="cpu")
    assert numpy.allclose(ours, theirs.encode([TEXT, "my dog", LONG * 4]), atol=1e-5)


def check_pictures(task: str, **parameters: Any) -> Any:
    model = served(task)
    expected = model.ask(body(text64(picture()), **parameters)).json
    for kind in ("image/png", "IMAGE/X-IMAGE"):
        assert model.ask(picture(), kind).status == 200
    for format_ in ("JPEG", "TIFF", "BMP", "GIF", "WEBP"):
        assert model.ask(picture(format_), f"image/{format_.lower()}").status == 200
    data = f"data:image/png;base64,{text64(picture())}"
    assert model.ask(body(data, **parameters)).json == expected
    refused(model.ask(b"nothing", "image/png"), "no image")
    refused(model.ask(body("/etc/passwd")), "is not an image: give an http or https address, or base64")
    return expected


def test_image_classification() -> None:
    are_scores(check_pictures("image-classification"), "label", "score")


def test_image_segmentation_gives_masks() -> None:
    answers = ask("image-segmentation", text64(picture()))
    assert set(answers[0]) == {"score", "label", "mask"}
    assert opened(base64.b64decode(answers[0]["mask"])).size == (24, 24)


def test_object_detection() -> None:
    answers = ask("object-detection", text64(picture()), threshold=0.0)
    are_scores(answers, "score", "label", "box")
    assert set(answers[0]["box"]) == {"xmin", "ymin", "xmax", "ymax"}


def test_depth_estimation() -> None:
    answer = ask("depth-estimation", text64(picture()))
    assert set(answer) == {"predicted_depth", "depth"}
    assert opened(base64.b64decode(answer["depth"])).size == (24, 24)


def test_image_to_text() -> None:
    (answer,) = check_pictures("image-to-text", max_new_tokens=4)
    assert set(answer) == {"generated_text"}
    refused(served("image-to-text").ask(body(text64(picture()), prompt="a dog")), "vision-encoder-decoder")


def test_image_to_image_answers_with_an_image() -> None:
    model = served("image-to-image")
    for accept, kind, format_ in (("image/jpeg", "image/jpeg", "JPEG"), ("image/x-image", "image/png", "PNG")):
        answer = model.ask(picture(), "image/png", accept)
        assert answer.type == kind
        assert opened(answer.body).format == format_
        assert opened(answer.body).size[0] > 24  # twice what it was, and the model's own margin
    assert opened(base64.b64decode(model.ask(picture(), "image/png").json)).format == "PNG"


def test_visual_question_answering() -> None:
    asked = {"image": text64(picture()), "question": "what is it ?"}
    answers = ask("visual-question-answering", asked)
    are_scores(answers, "score", "answer")
    assert answers == sorted(answers, key=lambda answer: -answer["score"])
    assert ask("visual-question-answering", asked, top_k=1) == answers[:1]
    assert ask("visual-question-answering", [asked, asked]) == [answers, answers]
    refused(served("visual-question-answering").ask(body({"image": asked["image"]})), "question")


def test_document_question_answering() -> None:
    words = (("the", 0), ("name", 60), ("is", 130), ("berlin", 160))
    boxes = [[word, [left, 0, left + 50, 20]] for word, left in words]
    asked = {"image": text64(picture(size=(240, 40))), "question": "what is the name ?", "word_boxes": boxes}
    are_scores(ask("document-question-answering", asked), "score", "answer", "start", "end")


def test_zero_shot_image_classification() -> None:
    answers = ask("zero-shot-image-classification", text64(picture()), candidate_labels=["red house", "blue dog"])
    are_scores(answers, "score", "label")
    refused(served("zero-shot-image-classification").ask(picture(), "image/png"), "candidate_labels")


def check_sounds(task: str) -> Any:
    model = served(task)
    kinds = ("audio/wave", "audio/wav", "audio/x-wav", "audio/x-audio")
    first, *others = (model.ask(sound(), kind).json for kind in kinds)
    assert others == [first] * 3
    assert model.ask(body(text64(sound()))).json == first
    assert model.ask(sound(rate=8000), "audio/wav").status == 200
    refused(model.ask(b"nothing", "audio/mpeg"), "no audio")
    refused(model.ask(body("/etc/passwd")), "is not audio: give an http or https address, or base64")
    return first


def test_audio_classification() -> None:
    are_scores(check_sounds("audio-classification"), "score", "label")


def test_automatic_speech_recognition() -> None:
    answer = check_sounds("automatic-speech-recognition")
    assert set(answer) == {"text"}
    assert isinstance(answer["text"], str)


def test_text_to_audio() -> None:
    answer = ask("text-to-audio", "hello")
    assert set(answer) == {"audio", "sampling_rate"}


def test_every_task_of_the_library_or_ours_is_known_by_name() -> None:
    folder = MODELS / "text-classification" / "model"
    served("text-classification")
    with failing(tasks.TaskError, "text-clasification", "Did you mean text-classification?", "question-answering"):
        load(folder, "text-clasification")
    with failing(tasks.TaskError, "multiple-choice", "model_fn"):
        load(folder, "multiple-choice")
    assert load(folder, "sentiment-analysis").ask(body(TEXT)).json == ask("text-classification", TEXT)


def test_text_to_image_where_diffusers_is_installed() -> None:
    if importlib.util.find_spec("diffusers") is None:
        served("text-classification")
        with failing(ImportError, "text-to-image needs the package diffusers", "code/requirements.txt"):
            load(MODELS / "text-classification" / "model", "text-to-image")
        return
    small = {"num_inference_steps": 1, "height": 8, "width": 8}
    answer = served("text-to-image").ask(
        body("a red house", num_images_per_prompt=3, seed=1, **small), JSON, "image/png"
    )
    assert (answer.type, opened(answer.body).size) == ("image/png", (8, 8))
    assert base64.b64decode(ask("text-to-image", "a red house", seed=1, **small)) == answer.body


def test_user_functions_stand_beside_the_defaults() -> None:
    for code, expected in (
        (
            "def predict_fn(data, model):\n    return [model(data['inputs']), 1]\n",
            [ask("text-classification", TEXT), 1],
        ),
        ("def input_fn(data, kind, context):\n    return {'inputs': data}\n", ask("text-classification", TEXT)),
        ("def model_fn(model_dir):\n    return lambda inputs, **more: [inputs, more]\n", [TEXT, {}]),
        ("def output_fn(prediction, accept):\n    return '[7]', accept\n", [7]),
    ):
        folder = Folder(code)
        tiny.make("text-classification", folder.model)
        sent = TEXT if "input_fn" in code else body(TEXT)
        assert folder.load(SERVICE).ask(sent).json == expected, code


def test_tensors_and_numpy_values_are_encoded_wherever_they_lie() -> None:
    code = """\
        import datetime, numpy, torch
        def model_fn(model_dir):
            return None
        def predict_fn(data, model):
            when = datetime.date(2026, 1, 2)
            return [torch.ones(2, dtype=torch.bfloat16), {"é": numpy.float32(1)}, numpy.arange(2), when, {1: None}]
    """
    answer = Folder(code).load(SERVICE).ask(body(TEXT))
    assert answer.body.decode() == '[[1.0,1.0],{"é":1.0},[0,1],"2026-01-02",{"1":null}]'
    nan = Folder(code.replace("return [", "return [float('nan'), ")).load(SERVICE).ask(body(TEXT))
    assert nan.status == 500
    assert "JSON" in nan.message
