"""The HTTP surface of a container with many models."""

from __future__ import annotations

import json
import logging
import re
import urllib.parse
from http import HTTPStatus

from sagemaker_inference.multi_model import metrics, names, proxy, refusal
from sagemaker_inference.multi_model.proxy import Receive, Scope, Send
from sagemaker_inference.multi_model.refusal import Refusal
from sagemaker_inference.multi_model.registry import Registry
from sagemaker_inference.server import replies
from sagemaker_inference.server.metrics import CONTENT_TYPE

logger = logging.getLogger(__name__)

_PAGE = 100
# Names and paths have 1024 characters at most.
_LOAD_BYTES = 65536


class App:
    """An ASGI application: the models of a registry, behind the calls of the platform. metrics_path: None is none."""

    def __init__(self, registry: Registry, metrics_path: str | None = None) -> None:
        self._registry = registry
        self._metrics_path = metrics_path

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            await self._route(scope, receive, send)
        except Refusal as cause:
            body = replies.error(cause.status, cause.message, cause.kind)
            await _answer(send, cause.status, body, cause.headers)

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Split before it is decoded: a slash that was written as %2F is a part of a name, and refused there.
        parts = [urllib.parse.unquote(part) for part in scope["raw_path"].decode("latin-1").split("/")[1:]]
        method = scope["method"]
        if parts[:1] == ["models"] and len(parts) == 3 and parts[2] == "invoke":
            _allow(method, "POST")
            await self._invoke(parts[1], scope, receive, send)
        elif parts == ["ping"]:
            _allow(method, "GET")
            await _answer(send, HTTPStatus.OK, b"")
        elif parts == ["models"]:
            if _allow(method, "GET", "POST") == "GET":
                await _answer(send, HTTPStatus.OK, self._list(scope["query_string"]))
            else:
                await self._load(receive, send)
        elif parts[:1] == ["models"] and len(parts) == 2:
            await self._model(_allow(method, "GET", "DELETE"), parts[1], send)
        elif parts == ["invocations"]:
            _allow(method, "POST")
            raise refusal.bad_request(
                "This container serves many models: name one, by POST /models/NAME/invoke instead of /invocations."
            )
        elif self._metrics_path and scope["path"] == self._metrics_path:
            _allow(method, "GET")
            page = await metrics.page(self._registry.models(), self._metrics_path)
            await _answer(send, HTTPStatus.OK, page, content_type=CONTENT_TYPE)
        else:
            path = scope["path"][:200]
            raise refusal.not_found(f"There is nothing at {path!r}; the paths are /ping, /models and what is below it.")

    async def _invoke(self, name: str, scope: Scope, receive: Receive, send: Send) -> None:
        model = self._registry.get(_checked(name))
        with model.use() as unit:
            status = await proxy.forward(unit, scope, receive, send)
        if HTTPStatus.OK <= status < HTTPStatus.INTERNAL_SERVER_ERROR:
            model.answered()

    async def _load(self, receive: Receive, send: Send) -> None:
        name, url = _load_request(await _read(receive))
        await self._registry.load(name, url)
        await _answer(send, HTTPStatus.OK, json.dumps({"modelName": name, "modelUrl": url}).encode())

    async def _model(self, method: str, name: str, send: Send) -> None:
        source = self._registry.get(_checked(name)).source
        if method == "DELETE":
            await self._registry.unload(name)
        await _answer(send, HTTPStatus.OK, json.dumps(_entry(source.name, source.folder)).encode())

    def _list(self, query: bytes) -> bytes:
        given = dict(urllib.parse.parse_qsl(query.decode("latin-1"), keep_blank_values=True))
        limit, token = given.get("limit", str(_PAGE)), given.get("next_page_token", "")
        if not re.fullmatch("0*[1-9][0-9]{0,8}", limit):
            raise refusal.bad_request(f"limit={limit[:50]!r}: use a whole number from 1 to {_PAGE}.")
        try:
            after = names.after(token) if token else ""
        except ValueError:
            raise refusal.bad_request(
                f"next_page_token={token[:50]!r} is no token of this server: use the nextPageToken of the page before."
            ) from None
        models, following = self._registry.page(min(int(limit), _PAGE), after)
        page: dict[str, object] = {"models": [_entry(model.source.name, model.source.folder) for model in models]}
        if following:
            page["nextPageToken"] = following
        return json.dumps(page).encode()


def _entry(name: str, url: str) -> dict[str, str]:
    return {"modelName": name, "modelUrl": url}


def _allow(method: str, *methods: str) -> str:
    if method in methods:
        return method
    allow = ", ".join(methods)
    raise Refusal(
        HTTPStatus.METHOD_NOT_ALLOWED,
        "MethodNotAllowed",
        f"This path answers {allow}, not {method}.",
        ((b"allow", allow.encode()),),
    )


def _checked(name: str) -> str:
    if fault := names.fault(name):
        raise refusal.bad_request(f"The model's name {name[:100]!r} {fault}.")
    return name


def _load_request(body: bytes) -> tuple[str, str]:
    """Name and folder of a load. Raises Refusal that names all faults."""
    try:
        given = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise refusal.bad_request(f"The body is no JSON: {error}.") from error
    if not isinstance(given, dict):
        raise refusal.bad_request('The body is no JSON object: send {"model_name": "NAME", "url": "/PATH"}.')
    faults = []
    for field in ("model_name", "url"):
        if not isinstance(given.get(field), str):
            faults.append(f"{field} is {'missing' if given.get(field) is None else 'no string'}")
        elif field == "model_name" and (fault := names.fault(given[field])):
            faults.append(f"model_name {given[field][:100]!r} {fault}")
        elif field == "url" and (not given[field].startswith("/") or "\0" in given[field]):
            faults.append(f"url {given[field][:100]!r} is no absolute path")
    if faults:
        raise refusal.bad_request(f"The model cannot be loaded: {'; '.join(faults)}.")
    return given["model_name"], given["url"]


async def _read(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if len(body) > _LOAD_BYTES:
            raise Refusal(
                HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
                "PayloadTooLarge",
                f"The request's body is more than {len(body)} bytes; {_LOAD_BYTES} are enough to name a model.",
            )
        if not message.get("more_body", False):
            return bytes(body)


async def _answer(
    send: Send,
    status: HTTPStatus,
    body: bytes,
    headers: tuple[tuple[bytes, bytes], ...] = (),
    content_type: bytes = replies.JSON,
) -> None:
    start = [(b"content-type", content_type), (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": int(status), "headers": start})
    await send({"type": "http.response.body", "body": body})
