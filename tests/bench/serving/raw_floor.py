"""The floor for bodies that are no text: as floor.py, with the body as bytes. Frozen like that one."""

import sys

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

sys.path.insert(0, "/opt/ml/model/code")
import inference

model = inference.model_fn("/opt/ml/model")


async def invocations(request: Request) -> Response:
    data = inference.input_fn(await request.body(), request.headers.get("content-type", ""))
    answer = inference.output_fn(inference.predict_fn(data, model), request.headers.get("accept", "application/json"))
    return Response(answer, media_type="application/json")


app = Starlette(routes=[Route("/invocations", invocations, methods=["POST"])])
