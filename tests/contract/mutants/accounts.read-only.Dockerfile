# A mark that tells when the server began.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.cli.serve <<'EDIT'
    name = os.environ.get(SERVING_MODULE, "").strip()
=======
    open("/var/tmp/serve.began", "w").close()
    name = os.environ.get(SERVING_MODULE, "").strip()
EDIT
