# A stream is sent when it is known to be whole.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.server.streams <<'EDIT'
    for item in items:
        app.touch()
=======
    for item in list(items):
        app.touch()
EDIT
