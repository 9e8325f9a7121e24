"""The router's HTTP surface, in this process, on models that cost nothing; and its rules, on any input."""

from __future__ import annotations

import asyncio
import json
import tempfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sagemaker_inference.multi_model import metrics, names
from sagemaker_inference.multi_model.app import App
from sagemaker_inference.multi_model.model import Limits, Model, State
from sagemaker_inference.multi_model.registry import Registry
from sagemaker_inference.multi_model.unit import End, Source, UnitFailed

EMPTY = tempfile.mkdtemp(prefix="slipway-inference-")
OTHER = EMPTY + "/."
LOOP = asyncio.new_event_loop()


class Light(Model):
    """A model without a process. Those that end with "bad" cannot be loaded."""

    async def load(self):
        await asyncio.sleep(0)
        if self.source.name.endswith("bad"):
            raise UnitFailed(End("ValueError: no weights"))
        self.state = State.SERVING


class LightRegistry(Registry):
    def __init__(self, environ=None):
        super().__init__("handler", "/nowhere", environ or {}, Limits(None, 1.0, 1))
        self.made = []

    def _new(self, name, url):
        heavy = super()._new(name, url)
        model = Light(heavy.source, "/nowhere/1", heavy._environ, Limits(None, 1.0, 1))
        self.made.append(model)
        return model


class Answer:
    def __init__(self, messages):
        self.status = messages[0]["status"]
        self.headers = {name.decode(): value.decode() for name, value in messages[0]["headers"]}
        self.body = b"".join(message["body"] for message in messages[1:])
        assert self.headers["content-length"] == str(len(self.body))

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def message(self):
        error = self.json["error"]
        assert list(error) == ["message", "code", "type", "request_id"]
        assert error["code"] == self.status
        return error["message"]


class Surface:
    """An application without a server. Requests of one ``together`` run at the same time."""

    def __init__(self):
        self.registry = LightRegistry()
        self.app = App(self.registry)

    async def _send(self, method, path, body=b""):
        raw, _, query = path.partition("?")
        parts = [body[:10], body[10:]] if len(body) > 10 else [body]
        messages = [
            {"type": "http.request", "body": part, "more_body": part is not parts[-1]} for part in parts
        ]  # fmt: skip
        sent = []

        async def receive():
            return messages.pop(0)

        async def send(message):
            sent.append(message)

        scope = {
            "type": "http", "method": method, "path": raw, "raw_path": raw.encode(), "query_string": query.encode(),
            "headers": [],
        }  # fmt: skip
        await self.app(scope, receive, send)
        return Answer(sent)

    def together(self, *requests):
        async def run():
            return await asyncio.gather(*(self._send(*request) for request in requests))

        return LOOP.run_until_complete(run())

    def send(self, method, path, body=b""):
        return self.together((method, path, body))[0]

    def load(self, *model_names, url=EMPTY):
        return self.together(*(("POST", "/models", _load(name, url)) for name in model_names))

    def pages(self, query="?"):
        """All pages of the list, as the platform asks for them."""
        while True:
            page = self.send("GET", f"/models{query}").json
            yield [model["modelName"] for model in page["models"]]
            if "nextPageToken" not in page:
                return
            query = query.partition("&next")[0] + "&next_page_token=" + page["nextPageToken"]


def _load(name, url=EMPTY):
    return json.dumps({"model_name": name, "url": url}).encode()


@pytest.fixture
def surface():
    return Surface()


def test_ping_needs_no_model(surface):
    answer = surface.send("GET", "/ping")
    assert (answer.status, answer.body) == (200, b"")


def test_list_of_no_models(surface):
    answer = surface.send("GET", "/models")
    assert (answer.status, answer.json) == (200, {"models": []})
    assert answer.headers["content-type"] == "application/json"


def test_list_and_get_have_the_platforms_form(surface):
    surface.load("a", url=OTHER)
    assert surface.send("GET", "/models").json == {"models": [{"modelName": "a", "modelUrl": OTHER}]}
    assert surface.send("GET", "/models/a").json == {"modelName": "a", "modelUrl": OTHER}
    assert surface.send("GET", "/models/b").status == 404


def test_pages_of_a_hundred(surface):
    wanted = [f"m{number:03}" for number in range(250)]
    surface.load(*reversed(wanted))
    pages = list(surface.pages())
    assert [len(page) for page in pages] == [100, 100, 50]
    assert [name for page in pages for name in page] == wanted
    # A full last page has no token.
    assert [len(page) for page in surface.pages("?limit=50")] == [50] * 5
    assert [len(page) for page in surface.pages("?limit=1000")] == [100, 100, 50]


def test_pages_stay_right_while_models_come_and_go(surface):
    surface.load("b", "d", "f", "h")
    first = surface.send("GET", "/models?limit=2").json
    surface.send("DELETE", "/models/d")
    surface.load("a", "e")
    second = surface.send("GET", f"/models?limit=9&next_page_token={first['nextPageToken']}").json
    assert [model["modelName"] for model in second["models"]] == ["e", "f", "h"]


@pytest.mark.parametrize("limit", ["0", "-1", "x", "", "1.5", "٣", "9" * 30])
def test_limit_that_is_no_number(surface, limit):
    answer = surface.send("GET", f"/models?limit={limit}")
    assert answer.status == 400
    assert "limit" in answer.message


@pytest.mark.parametrize("token", ["x", "1", "YQ", "YQ=", "YR==", "YS9i", "Li4=", "%00", "gA==", "é"])
def test_token_that_is_none(surface, token):
    answer = surface.send("GET", f"/models?next_page_token={token}")
    assert answer.status == 400
    assert "next_page_token" in answer.message


@given(st.text(min_size=1, max_size=40))
def test_every_good_name_has_a_token_and_no_other_text_is_one(name):
    if names.fault(name) is None:
        assert names.after(names.token(name)) == name
    else:
        with pytest.raises(ValueError, match="no token"):
            names.after(name)


BAD_NAMES = ["", "/", "a/b", "..", "a..b", "../../etc", "\0", "a\0b", "a\nb", "\x7f", "x" * 1025]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_unsafe_names_are_refused_everywhere(surface, name):
    answer = surface.load(name)[0]
    assert answer.status == 400
    assert "model_name" in answer.message
    from urllib.parse import quote

    path = "/models/" + quote(name, safe="")
    for method, ending in (("POST", "/invoke"), ("GET", ""), ("DELETE", "")):
        assert surface.send(method, path + ending).status == 400
    assert not surface.registry.made


@pytest.mark.parametrize("name", ["a", "a.b", ".a", "m-1_2", "ä ö", "模型", "x" * 1024, "a%2Fb", "a b?c#d", "\\"])
def test_other_names_are_opaque(surface, name):
    from urllib.parse import quote

    assert surface.load(name)[0].status == 200
    assert surface.send("GET", "/models/" + quote(name, safe="")).json["modelName"] == name
    assert surface.send("DELETE", "/models/" + quote(name, safe="")).status == 200


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", ["no JSON"]),
        (b"{", ["no JSON"]),
        (b"\xff", ["no JSON"]),
        (b"[1]", ["no JSON object"]),
        (b"{}", ["model_name is missing", "url is missing"]),
        (b'{"model_name": 1, "url": null}', ["model_name is no string", "url is missing"]),
        (b'{"model_name": "a/b", "url": "models/x"}', ["contains '/'", "no absolute path"]),
        (b'{"model_name": "a", "url": "/tmp\\u0000x"}', ["no absolute path"]),
        (b"[" * 30000, ["no JSON"]),
    ],
)
def test_bodies_that_are_no_load_name_every_fault(surface, body, words):
    answer = surface.send("POST", "/models", body)
    assert answer.status == 400
    assert all(word in answer.message for word in words)


def test_body_of_a_load_has_a_limit(surface):
    assert surface.send("POST", "/models", b" " * 70000).status == 413


@given(
    st.binary(max_size=200)
    | st.recursive(
        st.none() | st.integers() | st.text(),
        lambda item: st.lists(item) | st.dictionaries(st.sampled_from(["model_name", "url", "x"]), item),
    ).map(lambda value: json.dumps(value).encode())
)
def test_any_body_is_loaded_or_refused_with_a_reason(body):
    answer = Surface().send("POST", "/models", body)
    assert answer.status in (200, 400, 404)
    if answer.status != 200:
        assert answer.message


def test_of_many_loads_of_a_name_at_once_one_succeeds(surface):
    answers = surface.load(*["a"] * 20)
    assert sorted(answer.status for answer in answers) == [200] + [409] * 19
    assert len(surface.registry.made) == 1
    assert "is being loaded" in answers[-1].message
    assert surface.load("a")[0].message == "Model 'a' is loaded."


def test_failed_load_leaves_the_name_free(surface):
    for _ in range(2):
        answers = surface.load("bad", "bad", "good")
        assert [answer.status for answer in answers[:2]] == [500, 409]
        assert answers[0].message == "Model 'bad' cannot be loaded: ValueError: no weights"
        surface.send("DELETE", "/models/good")
    assert surface.send("GET", "/models").json == {"models": []}


def test_folder_that_is_missing_or_a_file(surface):
    assert surface.load("a", url="/not/there")[0].status == 404
    assert surface.load("a", url="/etc/passwd")[0].status == 400


def test_invocations_without_a_name(surface):
    answer = surface.send("POST", "/invocations")
    assert answer.status == 400
    assert "POST /models/NAME/invoke" in answer.message
    assert surface.send("POST", "/models/a/invoke").status == 404


@pytest.mark.parametrize(
    ("path", "allow"),
    [
        ("/ping", "GET"), ("/invocations", "POST"), ("/models", "GET, POST"), ("/models/a", "GET, DELETE"),
        ("/models/a/invoke", "POST"),
    ],
)  # fmt: skip
def test_methods(surface, path, allow):
    for method in {"GET", "POST", "PUT", "DELETE", "HEAD", "PATCH", "OPTIONS"} - set(allow.split(", ")):
        answer = surface.send(method, path)
        assert (answer.status, answer.headers["allow"]) == (405, allow)


@pytest.mark.parametrize(
    "path", ["/", "/x", "/ping/", "/models/a/b", "/models/a/invoke/", "/execution-parameters", "//models"]
)
def test_paths_that_are_none(surface, path):
    assert surface.send("GET", path).status == 404


def test_gpus_are_shared_out():
    """Every model sees all, and begins with the one that the fewest began with."""
    surface = Surface()
    surface.registry = LightRegistry({"CUDA_VISIBLE_DEVICES": "3, 5,7"})
    surface.app = App(surface.registry)
    surface.load("a", "b", "c", "d")
    seen = [model._environ["CUDA_VISIBLE_DEVICES"] for model in surface.registry.made]
    assert seen == ["3,5,7", "5,7,3", "7,3,5", "3,5,7"]
    surface.send("DELETE", "/models/b")
    surface.load("e", "bad", "f")
    assert [model._environ["CUDA_VISIBLE_DEVICES"] for model in surface.registry.made[4:]] == [
        "5,7,3",
        "5,7,3",
        "7,3,5",
    ]


def test_without_a_choice_of_gpus_nothing_is_set():
    for environ in ({}, {"CUDA_VISIBLE_DEVICES": "1"}):
        registry = LightRegistry(environ)
        LOOP.run_until_complete(registry.load("a", EMPTY))
        assert registry.made[0]._environ == environ


def test_source_is_what_the_load_said(surface):
    surface.load("a", url=OTHER)
    assert surface.registry.made[0].source == Source("a", OTHER, "handler")


PAGES = {
    "a": '# HELP x Words.\n# TYPE x counter\nx{code="2xx"} 1\n# HELP y More.\n# TYPE y gauge\ny 2.5\n',
    'b"': '# HELP x Words.\n# TYPE x counter\nx{code="2xx"} 3\n# HELP y More.\n# TYPE y gauge\ny 4\n',
}


def test_metrics_of_models_stand_together():
    assert metrics.joined(PAGES).splitlines() == [
        "# HELP x Words.", "# TYPE x counter", 'x{model="a",code="2xx"} 1', 'x{model="b\\"",code="2xx"} 3',
        "# HELP y More.", "# TYPE y gauge", 'y{model="a"} 2.5', 'y{model="b\\""} 4',
    ]  # fmt: skip
    assert metrics.joined({}) == ""


def test_no_metrics_unless_asked_for(surface):
    assert surface.send("GET", "/metrics").status == 404
    surface.app = App(surface.registry, "/metrics")
    assert surface.send("GET", "/metrics").status == 200
    assert surface.send("POST", "/metrics").status == 405
