"""LitServe with the same user functions; the raw body through a spec of its own."""

import os
import sys

import litserve as ls
from fastapi import Request, Response

sys.path.insert(0, "/opt/ml/model/code")
import inference


class Api(ls.LitAPI):
    def setup(self, device):
        self.model = inference.model_fn("/opt/ml/model")

    async def decode_request(self, request: Request):
        return inference.input_fn((await request.body()).decode(), "application/json")

    def predict(self, data):
        return inference.predict_fn(data, self.model)

    def encode_response(self, output):
        return Response(inference.output_fn(output, "application/json"), media_type="application/json")


if __name__ == "__main__":
    workers = int(os.environ.get("SAGEMAKER_MODEL_SERVER_WORKERS", "1"))
    server = ls.LitServer(Api(api_path="/invocations"), healthcheck_path="/ping", workers_per_device=workers)
    server.run(port=8080, generate_client_file=False, log_level="warning")
