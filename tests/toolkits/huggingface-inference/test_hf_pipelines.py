"""What our own pipelines decide before and after the model, with stand-ins for models and libraries."""

from __future__ import annotations

import contextlib
import json
import logging
import sys
import types
from types import SimpleNamespace

import pytest
from sagemaker_huggingface_inference_toolkit import transformers_utils
from sagemaker_huggingface_inference_toolkit.pipelines import (
    generation,
    images,
    question_answering,
    sentence_embeddings,
    text2text,
    text_to_image,
)
from sagemaker_huggingface_inference_toolkit.pipelines.conversational import Conversation
from sagemaker_huggingface_inference_toolkit.pipelines.source import Source, texts_of


def bare(kind, **attributes):
    """A pipeline of a class, without its model."""
    made = object.__new__(kind)
    vars(made).update(attributes)
    return made


@pytest.fixture
def chat(monkeypatch):
    """A conversation whose model answers with the number of messages it got, and repeats none of them."""

    def generate(messages, **parameters):
        generate.asked = (messages, parameters)
        return [{"generated_text": [*messages, {"role": "assistant", "content": f"answer {len(messages)}"}]}]

    generate.tokenizer, generate.model = SimpleNamespace(chat_template=None), None
    monkeypatch.setattr(transformers_utils, "library_pipeline", lambda task, source: generate)
    made = Conversation("conversational", Source("", "cpu"))
    made.generate = generate
    return made


def test_a_conversation_goes_on(chat):
    assert "eos_token" in chat.tokenizer.chat_template
    told = chat({"text": "c", "past_user_inputs": ["a"], "generated_responses": ["b"]}, top_k=3)
    roles = [(message["role"], message["content"]) for message in chat.generate.asked[0]]
    assert roles == [("user", "a"), ("assistant", "b"), ("user", "c")]
    assert chat.generate.asked[1] == {"top_k": 3, "return_full_text": False}
    assert told == {
        "generated_text": "answer 3",
        "conversation": {"past_user_inputs": ["a", "c"], "generated_responses": ["b", "answer 3"]},
    }


def test_chat_messages_are_one_conversation_and_texts_are_several(chat):
    messages = [
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    assert chat(messages)["conversation"]["past_user_inputs"] == ["a", "c"]
    assert [one["generated_text"] for one in chat(["a", {"text": "b"}])] == ["answer 1", "answer 1"]


@pytest.mark.parametrize(
    "inputs",
    [
        5,
        {"text": 5},
        {"past_user_inputs": []},
        {"text": "a", "past_user_inputs": ["b"]},
        {"text": "a", "past_user_inputs": [1], "generated_responses": ["b"]},
    ],
)
def test_what_is_no_conversation_is_refused(chat, inputs):
    with pytest.raises(ValueError, match=r"must be \{text, past|must be lists of texts"):
        chat(inputs)


def generating(**config):
    found = {"max_new_tokens": None, "max_length": 20, "num_beams": 1, "pad_token_id": 0, **config}
    return SimpleNamespace(generation_config=SimpleNamespace(**found))


USUAL = {"max_new_tokens": 256, "num_beams": 4}


@pytest.mark.parametrize(
    ("config", "recorded", "found"),
    [
        ({}, {}, {"max_new_tokens": 256, "num_beams": 4}),
        ({"max_new_tokens": 9}, {}, {"num_beams": 4}),
        ({"max_length": 99}, {}, {"num_beams": 4}),
        ({}, {"max_length": 99}, {"num_beams": 4, "max_length": 99}),
        ({"max_length": 99}, {"max_new_tokens": 7}, {"max_new_tokens": 7, "num_beams": 4}),
        ({"num_beams": 2}, {}, {"max_new_tokens": 256}),
        ({"num_beams": 2}, {"num_beams": 3}, {"max_new_tokens": 256, "num_beams": 3}),
        ({"pad_token_id": None}, {}, {"max_new_tokens": 256, "num_beams": 4, "pad_token_id": 1}),
    ],
)
def test_the_author_s_arguments_go_before_the_usual_ones(config, recorded, found):
    assert generation.arguments(generating(**config), SimpleNamespace(pad_token_id=1), USUAL, recorded) == found


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, {"max_new_tokens": 256, "num_beams": 4}),
        ({"max_length": 9}, {"max_length": 9, "num_beams": 4}),
        ({"max_new_tokens": 9}, {"max_new_tokens": 9, "num_beams": 4}),
        ({"num_beams": 1}, {"max_new_tokens": 256, "num_beams": 1}),
    ],
)
def test_a_length_that_is_asked_for_stands_alone(asked, found):
    assert generation.merged(USUAL, asked) == found


class Questions(images.VisualQuestionAnswering):
    """Answers with what the model would get."""

    def __init__(self):
        self.tokenizer = lambda asked, **given: {"question": asked, **given}

    def _pixels(self, image, timeout):
        return {"image": image}

    def _answers(self, batch, top_k):
        return [(batch["image"], batch["question"])] * top_k


@pytest.mark.parametrize(
    ("inputs", "given", "answers"),
    [
        ({"image": "i", "question": "q"}, {}, [("i", "q")]),
        ([{"image": "i", "question": "q"}], {}, [[("i", "q")]]),
        ({"image": "i", "question": ["q", "r"]}, {}, [[("i", "q")], [("i", "r")]]),
        ("i", {"question": "q"}, [("i", "q")]),
        (None, {"image": "i", "question": "q"}, [("i", "q")]),
    ],
)
def test_questions_about_images_are_answered_in_the_form_they_came(inputs, given, answers):
    assert Questions()(inputs, top_k=1, **given) == answers


@pytest.mark.parametrize("inputs", ["i", {"image": "i"}, {"question": "q"}, {"image": "i", "question": [1]}])
def test_a_question_needs_an_image_and_a_text(inputs):
    with pytest.raises(ValueError, match=r"must be \{image, question\}|must be a text"):
        Questions()(inputs)


class Spans(dict):
    """One part of a context: four tokens of one letter each, the first of them the class token."""

    encodings = (SimpleNamespace(word_ids=[None] * 4, offsets=[(0, 0), (0, 1), (1, 2), (2, 3)]),)


class Answers(question_answering.QuestionAnswering):
    """Finds the same tokens in each part of a context, the first pair twice."""

    def __init__(self, side="right"):
        def tokenizer(*texts, **given):
            self.asked = (texts, given)
            return Spans(input_ids=[0])

        self.tokenizer = tokenizer
        tokenizer.model_max_length, tokenizer.padding_side = 100, side

    def _probabilities(self, encoding, spans, index):
        return [0.5, 0.1, 0.2, 0.2], [0.5, 0.1, 0.2, 0.2], [True] * 4


@pytest.fixture
def best(monkeypatch):
    def found(start, end, allowed, longest, count):
        assert (start[0], end[0]) == (0.0, 0.0), "the class token is no answer"
        return [(1, 1, 0.3), (2, 3, 0.2), (1, 1, 0.1)]

    monkeypatch.setattr(question_answering, "_best", found)


PAIR = {"question": "q", "context": "Abc"}


@pytest.mark.parametrize(
    ("given", "answers"),
    [
        ({}, {"score": 0.4, "start": 0, "end": 1, "answer": "A"}),
        ({"top_k": 2}, [{"score": 0.4, "answer": "A"}, {"score": 0.2, "answer": "bc"}]),
        ({"topk": 2, "handle_impossible_answer": True}, [{"score": 0.4}, {"score": 0.25, "answer": "", "end": 0}]),
    ],
)
def test_answers_are_the_best_ones_and_the_same_text_counts_once(best, given, answers):
    found = Answers()(PAIR, **given)
    assert isinstance(found, type(answers))
    for one, wanted in zip(
        [found] if isinstance(found, dict) else found, [answers] if given == {} else answers, strict=True
    ):
        assert {name: one[name] for name in wanted} == pytest.approx(wanted)


def test_the_context_is_cut_and_stands_on_its_side(best):
    right, left = Answers(), Answers("left")
    right(PAIR)
    left(PAIR, max_seq_len=40, doc_stride=7)
    assert right.asked[0] == ("q", "Abc")
    assert left.asked[0] == ("Abc", "q")
    cuts = [(one.asked[1]["truncation"], one.asked[1]["max_length"], one.asked[1]["stride"]) for one in (right, left)]
    assert cuts == [("only_second", 100, 50), ("only_first", 40, 7)]


@pytest.mark.parametrize(
    ("inputs", "given", "said"),
    [
        (PAIR, {"max_seq_len": 5, "doc_stride": 6}, "doc_stride 6 is above max_seq_len 5"),
        (PAIR, {"top_k": 0}, "must be at least 1"),
        ("q", {}, r"must be \{question, context\}"),
        ({"question": "q", "context": ""}, {}, "need a context"),
        ({"question": ["q", "r", "s"], "context": ["c", "d"]}, {}, "3 questions and 2 contexts"),
        ({"question": [1], "context": ["c"]}, {}, "must be texts"),
    ],
)
def test_questions_that_cannot_be_answered_are_refused(best, inputs, given, said):
    with pytest.raises(ValueError, match=said):
        Answers()(inputs, **given)


def test_questions_share_a_context(best):
    found = Answers()(question=["q", "r"], context="Abc")
    assert [one["answer"] for one in found] == ["A", "A"]


def embeddings(**attributes):
    made = bare(sentence_embeddings.SentenceEmbeddings, _prompts={}, **attributes)
    made._embed = lambda texts, normalize, truncation: [[text, len(texts)] for text in texts]
    return made


def test_texts_are_embedded_in_batches_with_the_prompt():
    made = embeddings()
    made._prompts = {"prompts": {"query": "query: ", "passage": ""}, "default_prompt_name": "query"}
    assert made(["a", "b", "c"], batch_size=2) == [["query: a", 2], ["query: b", 2], ["query: c", 1]]
    assert made("a", prompt_name="passage") == [["a", 1]]
    with pytest.raises(ValueError, match="no prompt 'other'; it has: passage, query"):
        made("a", prompt_name="other")


@pytest.mark.parametrize(
    ("recorded", "tokenizer", "positions", "length"),
    [(128, 512, 512, 128), (None, 10**30, 514, 514), (512, 256, None, 256), (None, 10**30, None, None)],
)
def test_the_least_length_that_is_known_counts(recorded, tokenizer, positions, length):
    made = embeddings(
        tokenizer=SimpleNamespace(model_max_length=tokenizer),
        model=SimpleNamespace(config=SimpleNamespace(max_position_embeddings=positions)),
    )
    assert made._longest({"max_seq_length": recorded}) == length


@pytest.mark.parametrize(
    ("config", "modes"),
    [
        ({}, ["mean"]),
        ({"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": False}, ["cls"]),
        ({"pooling_mode_mean_tokens": True, "pooling_mode_max_tokens": True}, ["max", "mean"]),
        ({"pooling_mode": "lasttoken"}, ["lasttoken"]),
        ({"pooling_mode": ["cls", "mean"]}, ["cls", "mean"]),
    ],
)
def test_the_pooling_is_the_author_s(config, modes):
    assert sentence_embeddings._pooling_modes(config) == modes


def test_modules_follow_by_their_number(tmp_path):
    listed = [{"idx": 10, "type": "a.Normalize"}, {"idx": 2, "type": "a.b.Pooling"}]
    (tmp_path / "modules.json").write_text(json.dumps(listed))
    kinds = [sentence_embeddings._kind(module) for module in sentence_embeddings._modules(tmp_path)]
    assert kinds == ["Pooling", "Normalize"]


def test_a_module_that_is_not_known_is_refused(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "torch", types.ModuleType("torch"))
    with pytest.raises(ValueError, match="names a LSTM, which this image does not know"):
        embeddings()._step("LSTM", tmp_path)


class Auto:
    """Stands for the library's Auto classes; keeps how it was loaded."""

    def __init__(self, folder, **given):
        self.given, self.done = {"folder": folder, **given}, []

    @classmethod
    def from_pretrained(cls, folder, **given):
        return cls(folder, **given)

    def eval(self):
        self.done.append("eval")
        return self

    def to(self, device):
        self.done.append(device)
        return self


def test_a_model_is_put_on_a_device_or_by_a_map():
    placed = Source("f", "cuda:1").model(Auto)
    assert placed.given == {"folder": "f", "trust_remote_code": False, "dtype": "auto"}
    assert placed.done == ["eval", "cuda:1"]
    mapped = Source("f", "cuda:1", "auto", True).model(Auto)
    assert mapped.given == {"folder": "f", "trust_remote_code": True, "dtype": "auto", "device_map": "auto"}
    assert mapped.done == ["eval"]


@pytest.mark.parametrize("recorded", [None, [], {"other": {"a": 1}}, {"summarization": None}])
def test_an_author_may_have_recorded_nothing(model, recorded):
    assert Source(model(config_json={"task_specific_params": recorded}), "cpu").task_parameters("summarization") == {}


def test_what_an_author_recorded_is_read(model):
    folder = model(config_json={"task_specific_params": {"summarization": {"a": 1}}})
    assert Source(folder, "cpu").task_parameters("summarization") == {"a": 1}


@pytest.mark.parametrize("inputs", [5, None, ["a", 5], {"a": "b"}])
def test_texts_are_texts(inputs):
    assert texts_of("a") == ["a"]
    assert texts_of(("a", "b")) == ["a", "b"]
    with pytest.raises(TypeError, match="a text or a list of texts"):
        texts_of(inputs)


class Texts(text2text.Text2Text):
    """Makes as many sequences of each text as are asked for."""

    def __init__(self, task="summarization", languages=(None, None)):
        self.task, self._prefix, self._languages = task, "short: ", languages
        self.tokenizer = SimpleNamespace(encode=lambda text, add_special_tokens: [len(text), 0])

    def _encode(self, batch, truncation, source, target):
        return {"batch": batch, "languages": (source, target)}

    def _generate(self, encoded, count, clean, asked):
        self.asked, self.languages = asked, encoded["languages"]
        return [[text] * asked.get("num_return_sequences", 1) for text in encoded["batch"]]


@pytest.mark.parametrize(
    ("inputs", "given", "answers"),
    [
        ("a", {}, ["short: a"]),
        (["a", "b", "c"], {"batch_size": 2}, ["short: a", "short: b", "short: c"]),
        (["a"], {"num_return_sequences": 2}, [["short: a", "short: a"]]),
    ],
)
def test_texts_are_answered_in_the_form_they_came(inputs, given, answers):
    assert Texts()(inputs, **given) == answers


def test_a_stop_sequence_ends_with_its_first_token():
    texts = Texts()
    texts("a", stop_sequence="end")
    assert texts.asked == {"eos_token_id": 3}


@pytest.mark.parametrize(("target", "languages"), [(None, ("en", "de")), ("fr", ("en", "fr"))])
def test_languages_are_those_asked_for_else_the_model_s(target, languages):
    texts = Texts("translation", ("en", "de"))
    texts("a", tgt_lang=target)
    assert texts.languages == languages


@pytest.mark.parametrize(
    ("task", "recorded"),
    [
        ("translation_en_to_de", ({"prefix": "to German: "}, ("en", "de"))),
        ("translation", ({"prefix": "to German: "}, ("en", "de"))),
        ("summarization", ({"num_beams": 2}, (None, None))),
    ],
)
def test_plain_translation_takes_the_first_pair_of_languages(model, task, recorded):
    pairs = {"translation_en_to_de": {"prefix": "to German: "}, "translation_en_to_fr": {"prefix": "to French: "}}
    folder = model(config_json={"task_specific_params": {"summarization": {"num_beams": 2}, **pairs}})
    assert text2text.Text2Text._recorded(task, Source(folder, "cpu")) == recorded


@pytest.fixture
def diffusers(monkeypatch):
    """Stand-ins for diffusers and for PyTorch with a GPU that has bfloat16."""
    torch = types.ModuleType("torch")
    torch.device = lambda text: SimpleNamespace(type=text.partition(":")[0])
    torch.cuda = SimpleNamespace(is_bf16_supported=lambda: True)
    torch.bfloat16, torch.float16 = "bfloat16", "float16"
    torch.Generator = lambda device: SimpleNamespace(manual_seed=lambda seed: f"seed {seed} on {device}")
    torch.inference_mode = contextlib.nullcontext
    monkeypatch.setitem(sys.modules, "torch", torch)

    class Pipeline(Auto):
        def set_progress_bar_config(self, *, disable):
            self.done.append("quiet" if disable else "loud")

        def __call__(self, **given):
            return SimpleNamespace(images=[given, "another"])

    library = types.ModuleType("diffusers")
    library.AutoPipelineForText2Image = Pipeline
    monkeypatch.setitem(sys.modules, "diffusers", library)
    return torch


@pytest.mark.parametrize(
    ("source", "options", "done"),
    [
        (Source("f", "cpu", "auto"), {}, ["cpu", "quiet"]),
        (Source("f", "cuda:0"), {"torch_dtype": "bfloat16"}, ["cuda:0", "quiet"]),
        (Source("f", "cuda:0", "auto"), {"torch_dtype": "bfloat16", "device_map": "balanced"}, ["quiet"]),
    ],
)
def test_images_are_made_in_half_precision_on_gpus_only(diffusers, source, options, done):
    made = text_to_image.TextToImage("text-to-image", source)._pipeline
    assert made.given == {"folder": "f", **options}
    assert made.done == done


@pytest.mark.parametrize(
    ("given", "asked", "warned"),
    [
        ({}, {}, False),
        ({"seed": 0}, {"generator": "seed 0 on cpu"}, False),
        ({"num_images_per_prompt": 3, "guidance_scale": 2}, {"guidance_scale": 2}, True),
    ],
)
def test_one_image_is_made_for_each_prompt(diffusers, caplog, given, asked, warned):
    with caplog.at_level(logging.WARNING):
        image = text_to_image.TextToImage("text-to-image", Source("f", "cpu"))("a cat", **given)
    assert image == {"prompt": "a cat", "num_images_per_prompt": 1, **asked}
    assert ("num_images_per_prompt is not used" in caplog.text) is warned
