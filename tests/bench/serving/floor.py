"""The floor: the same user functions on uvicorn and starlette, as a careful user would write it.

Frozen: figures of different days are compared by it.
"""

import sys

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

sys.path.insert(0, "/opt/ml/model/code")
import inference

model = inference.model_fn("/opt/ml/model")


async def ping(request: Request) -> Response:
    return Response()


async def invocations(request: Request) -> Response:
    content_type = request.headers.get("content-type", "application/json")
    accept = request.headers.get("accept", "application/json")
    data = inference.input_fn((await request.body()).decode(), content_type)
    return Response(inference.output_fn(inference.predict_fn(data, model), accept), media_type="application/json")


app = Starlette(routes=[Route("/ping", ping), Route("/invocations", invocations, methods=["POST"])])
