"""Requests that the server hands over together: each has its own answer, in order, whatever becomes of the others."""

from __future__ import annotations

import asyncio
import sys

import pytest

from .conftest import answer, request

BATCH = """
    calls = []
    def model_fn(model_dir): return 10
    def input_fn(input_data, content_type): return int(input_data)
    def batch_predict_fn(data, model):
        calls.append(list(data))
        return [model * number for number in data]
"""


def send(base, *bodies, **headers):
    requests = [request(str(body), identity=f"r-{number}", **headers) for number, body in enumerate(bodies)]
    if base.service.asynchronous:
        replies = asyncio.run(base.service.handle_many_async(requests))
    else:
        replies = base.service.handle_many(requests)
    return [answer(reply) for reply in replies]


def calls():
    return sys.modules["inference"].calls


@pytest.mark.parametrize("prefix", ["", "async "])
def test_function_for_groups_gets_the_list_once(base, prefix):
    base.write("model/code/inference.py", BATCH.replace("def batch", f"{prefix}def batch"))
    base.load()
    assert base.service.batches
    assert [got.text for got in send(base, 1, 2, 3)] == ["10", "20", "30"]
    assert calls() == [[1, 2, 3]]


def test_one_request_goes_the_same_way(base):
    base.code(BATCH)
    base.load()
    assert base.post("4").text == "40"
    assert calls() == [[4]]


def test_single_function_serves_single_requests_where_there_are_both(base):
    base.code(BATCH + "    def predict_fn(data, model): return -data\n")
    base.load()
    assert base.post("4").text == "-4"
    assert [got.text for got in send(base, 4, 5)] == ["40", "50"]


def test_groups_without_a_function_for_them_are_answered_one_by_one(base):
    base.code("""
        calls = []
        def model_fn(model_dir): return None
        def transform_fn(model, data, content_type, accept, context):
            calls.append(data)
            if data == b"2": raise KeyError("two")
            context.set_response_status(200 + int(data))
            return data, f"text/{data.decode()}"
    """)
    base.load()
    assert not base.service.batches
    assert [(got.status, got.kind) for got in send(base, 1, 2, 3)] == [
        (201, "text/1"),
        (500, "application/json"),
        (203, "text/3"),
    ]
    assert calls() == [b"1", b"2", b"3"]


def test_content_types_accepts_and_ids_are_each_requests_own(base):
    base.code("""
        def model_fn(model_dir): return None
        def batch_transform_fn(model, input_data, content_type, accept, context):
            for index in range(len(input_data)):
                context.set_response_header(index, "x-id", context.get_request_id(index))
            context.set_response_status(202, idx=1)
            return [repr(item) for item in zip(input_data, content_type, accept)]
    """)
    base.load()
    requests = [
        request("1", "text/csv", "a/b", identity="r-1"),
        request("2", "image/png", None, identity="r-2"),
        request("3", None, "c/d, */*", identity="r-3"),
    ]
    first, second, third = (answer(reply) for reply in base.service.handle_many(requests))
    assert (eval(first.text), first.kind) == (("1", "text/csv", "a/b"), "a/b")
    assert (eval(second.text), second.kind) == ((b"2", "image/png", "application/json"), "application/json")
    assert (eval(third.text), third.kind) == ((b"3", None, "c/d, */*"), "c/d")
    assert [got.headers["x-id"] for got in (first, second, third)] == ["r-1", "r-2", "r-3"]
    assert [got.status for got in (first, second, third)] == [200, 202, 200]


def test_request_that_cannot_be_read_never_gets_to_the_others(base):
    base.code(BATCH)
    base.load()
    got = send(base, 1, "oops", 3)
    assert [one.status for one in got] == [200, 500, 200]
    assert [got[0].text, got[2].text] == ["10", "30"]
    assert got[1].error["request_id"] == "r-1"
    assert calls() == [[1, 3]]


def test_group_that_fails_is_tried_one_by_one(base):
    base.code(BATCH.replace("return [", "assert 13 not in data\n        return ["))
    base.load()
    got = send(base, 1, 13, 3)
    assert [one.status for one in got] == [200, 500, 200]
    assert [got[0].text, got[2].text] == ["10", "30"]
    assert calls() == [[1, 13, 3], [1], [13], [3]]


def test_error_in_the_place_of_a_result_is_that_requests_answer(base):
    base.code("""
        from sagemaker_inference import errors
        calls = []
        def model_fn(model_dir): return None
        def input_fn(input_data, content_type): return int(input_data)
        def batch_predict_fn(data, model):
            calls.append(list(data))
            return [number if number < 9 else errors.GenericInferenceToolkitError(422, "too large") for number in data]
    """)
    base.load()
    got = send(base, 1, 10, 3)
    assert [one.status for one in got] == [200, 422, 200]
    assert got[1].error["message"] == "too large"
    assert calls() == [[1, 10, 3]]


@pytest.mark.parametrize("result", ["data[1:]", "data + [1]", "None", "5"])
def test_wrong_number_of_results_is_nobodys_answer(base, result):
    base.code(f"""
        def model_fn(model_dir): return None
        def batch_predict_fn(data, model): return {result}
    """)
    base.load()
    got = send(base, 1, 2)
    assert [one.status for one in got] == [500, 500]
    if result.startswith("data"):
        assert f"returned {0 if '1:' in result else 2} results for 1 requests" in got[0].error["message"]


def test_answers_that_fail_are_single(base):
    base.code(BATCH + "    def output_fn(prediction, accept): return str(100 // (prediction - 20))\n")
    base.load()
    assert [one.status for one in send(base, 1, 2, 3)] == [200, 500, 200]


def test_group_of_streams(base):
    base.code("""
        def model_fn(model_dir): return None
        def batch_predict_fn(data, model): return [iter([item, 0]) for item in data]
    """)
    base.load()
    assert [got.text for got in send(base, "[1]", "[2]")] == ["[1]\n0\n", "[2]\n0\n"]


def test_async_functions_in_a_group(base):
    base.code("""
        import asyncio
        def model_fn(model_dir): return None
        async def input_fn(data, kind): await asyncio.sleep(0); return int(data)
        async def batch_predict_fn(data, model): await asyncio.sleep(0); return [item + 1 for item in data]
        async def output_fn(prediction, accept): await asyncio.sleep(0); return str(prediction)
    """)
    base.load()
    assert [got.text for got in send(base, 1, 2)] == ["2", "3"]


def test_groups_without_a_function_in_an_asynchronous_service(base):
    base.code("""
        def model_fn(model_dir): return None
        async def predict_fn(data, model): return data
    """)
    base.load()
    assert [got.text for got in send(base, 1, 2)] == ["1", "2"]


def test_empty_group(base):
    base.code(BATCH)
    base.load()
    assert send(base) == []


def test_type_that_an_encoder_chose_is_never_anothers(base):
    base.code("""
        from sagemaker_inference import encoder
        def model_fn(model_dir): return None
        def batch_transform_fn(model, input_data, content_type, accept):
            return [encoder.encode([1], "image/png, text/csv") if item == b"1" else "x" for item in input_data]
    """)
    base.load()
    assert [got.kind for got in send(base, 1, 2, accept="a/b, c/d")] == ["a/b", "a/b"]
