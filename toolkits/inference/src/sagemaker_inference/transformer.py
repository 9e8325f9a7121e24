"""The chain of the user functions, as a class that handler code makes and subclasses.

What does not override its methods is served by ``FunctionService`` and never gets here with a request.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from sagemaker_inference import (
    answers,
    content_types,
    errors,
    functions,
    logging,
    modules,
    negotiation,
    records,
    utils,
)
from sagemaker_inference.context import Context
from sagemaker_inference.default_inference_handler import DefaultInferenceHandler
from sagemaker_inference.model import Model
from sagemaker_inference.settings import Settings

_log = logging.get_logger(__name__)

#: The context of the request that this thread or task handles.
_current: ContextVar[Any] = ContextVar("context", default=None)


class Transformer:
    """Loads a model with its functions and answers requests by them."""

    def __init__(self, default_inference_handler: Any = None) -> None:
        self._default_inference_handler = default_inference_handler or DefaultInferenceHandler()
        self._settings = Settings.read()
        self._initialized = False
        self._transform_fn: Any = None
        self._input_fn: Any = None
        self._predict_fn: Any = None
        self._output_fn: Any = None
        self._model: Any = None
        self._served: Model | None = None
        self._wants_context: dict[Callable[..., Any], bool] = {}

    @property
    def is_loaded(self) -> bool:
        return self._served is not None

    @property
    def served(self) -> Model:
        """The model with its functions. Raises RuntimeError before ``validate_and_initialize``."""
        if self._served is None:
            raise RuntimeError("validate_and_initialize was not called.")
        return self._served

    def validate_and_initialize(self, model_dir: str | None = None, context: Any = None) -> None:
        """Imports and checks the user's functions and loads the model; does nothing the second time."""
        if self._initialized:
            return
        model_dir = model_dir or self._settings.model_dir
        module, _ = modules.load(self._settings, model_dir)
        served = Model(module, self._default_inference_handler)
        served.load(model_dir, context)
        self._served, self._model = served, served.value
        self._transform_fn = getattr(module, "transform_fn", None) or self._default_transform_fn
        for name in ("input_fn", "predict_fn", "output_fn"):
            default = getattr(self._default_inference_handler, f"default_{name}", None)
            setattr(self, f"_{name}", getattr(module, name, None) or default)
        self._initialized = True

    def transform(self, data: Sequence[Mapping[str, Any]], context: Any) -> list[Any]:
        """The bodies of the answers, one for each request, in order; statuses and headers go to the context.

        data: under ``body``, what was sent. A request that fails is answered by ``handle_error``, the others as ever.
        """
        bodies = []
        for idx, item in enumerate(data):
            own = context.single(idx) if isinstance(context, Context) else context
            token = _current.set(own)
            try:
                bodies.append(self._transform_one(item.get("body"), own))
            except Exception as error:
                bodies.append(self._error_body(own, error))
            finally:
                _current.reset(token)
        return bodies

    def handle_error(self, context: Any, inference_exception: Any, trace: str) -> Any:
        """Sets the status of a request that failed and returns the body of its answer.

        inference_exception: has status_code, message and phrase. trace: its traceback, which is not for the client.
        """
        status = int(inference_exception.status_code)
        context.set_response_status(code=status, phrase=utils.remove_crlf(str(inference_exception.phrase)))
        context.set_response_content_type(0, content_types.JSON)
        kind = type(inference_exception.__cause__ or inference_exception).__name__
        more = {"traceback": trace} if self._settings.debug else {}
        message = errors.message_of(inference_exception)
        return [errors.body(status, message, kind, str(context.get_request_id(0)), **more)]

    def use(self, settings: Settings) -> None:
        """Serves by these settings instead of those of the environment."""
        self._settings = settings

    def _transform_one(self, body: Any, context: Any) -> Any:
        headers = {name.lower(): value for name, value in context.request_processor[0].get_request_properties().items()}
        kind = negotiation.content_type(_header(headers, "content-type"))
        accept = negotiation.accept(_header(headers, "accept"), self._settings.default_accept)
        if kind.text:
            body = records.text(body, kind.charset)
        negotiation.chosen.set(None)
        result = self._run_handler_function(self._transform_fn, self._model, body, kind.type, accept.value)
        chosen = None
        if isinstance(result, tuple):
            result, chosen = answers.pair("The transform function", result)
        if chosen:
            context.set_response_content_type(0, chosen)
        elif not _content_type_is_set(context):
            chosen = accept.first if accept.exact else negotiation.chosen.get() or accept.first
            context.set_response_content_type(0, chosen)
        return result

    def _error_body(self, context: Any, error: Exception) -> Any:
        status = errors.status_of(error, multi_model=self._settings.multi_model)
        message = errors.message_of(error)
        _log.error("Request %s failed with status %d: %s", context.get_request_id(0), status, message, exc_info=error)
        described = error
        if not isinstance(error, errors.BaseInferenceToolkitError):
            described = errors.GenericInferenceToolkitError(status, message)
            described.__cause__ = error
        body = self.handle_error(context, described, "".join(traceback.format_exception(error)))
        return body[0] if isinstance(body, list) and len(body) == 1 else body

    def _default_transform_fn(
        self, model: Any, input_data: Any, content_type: str | None, accept: str, context: Any = None
    ) -> Any:
        data = self._run_handler_function(self._input_fn, input_data, content_type)
        prediction = self._run_handler_function(self._predict_fn, data, model)
        return self._run_handler_function(self._output_fn, prediction, accept)

    def _run_handler_function(self, func: Callable[..., Any], *argv: Any) -> Any:
        """Calls a function with the context of the request behind its arguments, if it takes one."""
        wants = self._wants_context.get(func)
        if wants is None:
            wants = functions.wants_context(getattr(func, "__name__", repr(func)), func, len(argv))
            self._wants_context[func] = wants
        return func(*argv, _current.get()) if wants else func(*argv)


def _header(headers: Mapping[str, str], name: str) -> bytes | None:
    value = headers.get(name)
    return None if value is None else value.encode("latin-1", "replace")


def _content_type_is_set(context: Any) -> bool:
    return isinstance(context, Context) and context.get_response_content_type(0) is not None
