"""LitServe with the same user functions; the raw body through a dependency."""

import os
import sys
from typing import Annotated

import litserve as ls
from fastapi import Depends, Request, Response

sys.path.insert(0, "/opt/ml/model/code")
import inference


async def raw(request: Request) -> bytes:
    return await request.body()


class Api(ls.LitAPI):
    def setup(self, device):
        self.model = inference.model_fn("/opt/ml/model")

    def decode_request(self, request: Annotated[bytes, Depends(raw)]):
        return inference.input_fn(request.decode(), "application/json")

    def predict(self, data):
        return inference.predict_fn(data, self.model)

    def encode_response(self, output):
        return Response(inference.output_fn(output, "application/json"), media_type="application/json")


if __name__ == "__main__":
    workers = int(os.environ.get("SAGEMAKER_MODEL_SERVER_WORKERS", "1"))
    server = ls.LitServer(Api(api_path="/invocations"), healthcheck_path="/ping", workers_per_device=workers)
    server.run(port=8080, generate_client_file=False, log_level="warning")
