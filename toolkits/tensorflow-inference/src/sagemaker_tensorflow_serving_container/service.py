"""One request to a TensorFlow model: what is asked for, the user's functions, the model, the answer.

Rules tf-*. Every error is ``{"error": TEXT}``, as TensorFlow Serving has it, with the code, the kind and the request's
id beside the text.
"""

from __future__ import annotations

import inspect
import logging
import traceback
from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from sagemaker_inference import answers as results
from sagemaker_inference import content_types, errors, negotiation
from sagemaker_inference.context import RequestProcessor
from sagemaker_inference.function_service import run
from sagemaker_inference.logging import request_ids
from sagemaker_inference.service import Reply, Request, Service
from sagemaker_inference.settings import Settings

from sagemaker_tensorflow_serving_container import answers, attributes, bodies, user_code
from sagemaker_tensorflow_serving_container.backend import Answer, Backend, Target, rest_uri
from sagemaker_tensorflow_serving_container.documents import Document
from sagemaker_tensorflow_serving_container.user_code import UserCode

if TYPE_CHECKING:
    from sagemaker_tensorflow_serving_container.engine import Engine

logger = logging.getLogger(__name__)

_STATUS: dict[type[Exception], int] = {
    attributes.AttributeFault: HTTPStatus.BAD_REQUEST,
    bodies.BodyError: HTTPStatus.BAD_REQUEST,
    bodies.UnsupportedType: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
    TimeoutError: HTTPStatus.GATEWAY_TIMEOUT,
    ConnectionError: HTTPStatus.SERVICE_UNAVAILABLE,
}


class TensorFlowService(Service):
    """All models of one worker. engine: where the models are in this process, so that requests can be put together."""

    def __init__(
        self,
        backend: Backend,
        default_model: str,
        code: UserCode | None,
        settings: Settings,
        engine: Engine | None = None,
    ) -> None:
        self._backend = backend
        self._default_model = default_model
        self._code = code
        self._settings = settings
        self._engine = engine
        self._log_ids = settings.log_format == "json"
        self.asynchronous = code is not None and code.asynchronous
        self.batches = code is None and engine is not None

    def handle(self, request: Request) -> Reply:
        return run(self._answer(request))

    async def handle_async(self, request: Request) -> Reply:
        return await self._answer(request)

    def handle_many(self, requests: Sequence[Request]) -> list[Reply]:
        """Requests for one model are answered by one call of it, where it and they allow that."""
        if not self.batches:
            return [self.handle(request) for request in requests]
        replies: list[Reply | None] = [None] * len(requests)
        groups: dict[Target, list[tuple[int, Document, str]]] = {}
        for index, request in enumerate(requests):
            try:
                accept = answers.choose(request.headers.get("accept"), self._settings.default_accept)
                groups.setdefault(self._target(request), []).append((index, _converted(request), accept))
            except Exception as error:
                replies[index] = self._failed(request, error)
        for target, members in groups.items():
            if len(members) > 1:
                self._answer_group(target, members, requests, replies)
        return [reply if reply is not None else self.handle(requests[index]) for index, reply in enumerate(replies)]

    def _answer_group(
        self,
        target: Target,
        members: list[tuple[int, Document, str]],
        requests: Sequence[Request],
        replies: list[Reply | None],
    ) -> None:
        assert self._engine is not None
        try:
            together = self._engine.answer_together(target, [document for _, document, _ in members])
        except Exception as error:
            for index, _, _ in members:
                replies[index] = self._failed(requests[index], error)
            return
        for (index, _, accept), answer in zip(members, together or (), strict=False):
            replies[index] = self._reply(requests[index], answer, accept)

    async def _answer(self, request: Request) -> Reply:
        if self._log_ids:
            request_ids.set((request.id, request.inference_id))
        try:
            target = self._target(request)
            if self._code:
                return await self._through_code(self._code, target, request)
            accept = answers.choose(request.headers.get("accept"), self._settings.default_accept)
            return self._reply(request, self._backend.post(target, _converted(request)), accept)
        except Exception as error:
            return self._failed(request, error)

    def _target(self, request: Request) -> Target:
        asked = attributes.parse(request.headers.get(attributes.HEADER))
        return Target(asked.model_name or self._default_model, asked.model_version, asked.method)

    async def _through_code(self, code: UserCode, target: Target, request: Request) -> Reply:
        processor = RequestProcessor(request)
        context = self._context(target, request, processor)
        if code.whole:
            result = await _result(code.whole(user_code.stream(request.body), context))
        else:
            assert code.before and code.after
            document = user_code.document(await _result(code.before(user_code.stream(request.body), context)))
            response = user_code.Response(self._backend.post(target, document), context.rest_uri)
            result = await _result(code.after(response, context))
        return await self._user_reply(result, context, processor)

    def _context(self, target: Target, request: Request, processor: RequestProcessor) -> user_code.Context:
        headers = request.headers
        accept = (headers.get("accept") or "").strip()
        return user_code.Context(
            model_name=target.name,
            model_version=None if target.version is None else str(target.version),
            method=target.method,
            rest_uri=rest_uri(self._backend.rest_port, target),
            grpc_port=self._backend.grpc_port,
            custom_attributes=headers.get(attributes.HEADER),
            request_content_type=_media_type(request)[0] or content_types.JSON,
            accept_header=self._settings.default_accept if accept in ("", content_types.ANY) else accept,
            content_length=len(request.body),
            timeout=self._settings.timeout_seconds,
            headers=headers,
            request_id=request.id,
            processor=processor,
        )

    async def _user_reply(self, result: Any, context: user_code.Context, processor: RequestProcessor) -> Reply:
        kind = None
        if isinstance(result, tuple):
            result, kind = results.pair("handler" if self._code and self._code.whole else "output_handler", result)
        kind = kind or processor.get_response_header("content-type")
        kind = kind or negotiation.accept(context.accept_header.encode("latin-1"), self._settings.default_accept).first
        if results.is_stream(result):
            body = await _stream(result, kind)
        else:
            body = results.whole("", result)
        return Reply(processor.get_response_status_code(), _headers(kind, processor.get_response_headers()), body)

    def _reply(self, request: Request, answer: Answer, accept: str) -> Reply:
        if answer.status >= 400:
            return self._refused(request, answer)
        try:
            body = answers.render(answer.document, accept)
        except ValueError as error:
            return self._failed(request, errors.GenericInferenceToolkitError(HTTPStatus.NOT_ACCEPTABLE, str(error)))
        return Reply(answer.status, _headers(accept), body)

    def _refused(self, request: Request, answer: Answer) -> Reply:
        """The model's own error, passed on with its status."""
        logger.warning("request %s: the model answered %d: %s", request.id, answer.status, answer.document.data[:2000])
        return Reply(answer.status, _headers(content_types.JSON), answers.one_line(answer.document.data))

    def _failed(self, request: Request, error: Exception) -> Reply:
        status = next((status for kind, status in _STATUS.items() if isinstance(error, kind)), None)
        if status is None:
            status = errors.status_of(error, multi_model=self._settings.multi_model)
        text = errors.message_of(error)
        logger.error(
            "request %s (inference id %s) failed with status %d: %s",
            *(request.id, request.inference_id or "-", status, text),
            exc_info=error if status >= 500 or self._code else None,
        )
        value = {"error": text, "code": int(status), "type": type(error).__name__, "request_id": request.id}
        if self._settings.debug:
            value["traceback"] = "".join(traceback.format_exception(error))
        return Reply(int(status), _headers(content_types.JSON), Document(value).data)


def _converted(request: Request) -> Document:
    kind, charset = _media_type(request)
    return bodies.convert(request.body, kind, charset)


def _media_type(request: Request) -> tuple[str | None, str]:
    header = request.headers.get("content-type")
    read = negotiation.content_type(None if header is None else header.encode("latin-1"))
    return read.type, read.charset


def _headers(kind: str, others: dict[str, str] | None = None) -> tuple[tuple[bytes, bytes], ...]:
    headers = {**(others or {}), "content-type": kind}
    return tuple((name.encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items())


async def _result(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def _stream(items: Any, kind: str) -> Any:
    """The items' bytes. The first one is made here, so that its failure has a status."""
    write = results.item_writer(kind)
    try:
        if hasattr(items, "__anext__"):
            return results.AsyncStream([await anext(items)], items, write)
        return results.Stream(next(items), items, write)
    except (StopIteration, StopAsyncIteration):
        return b""
