# One port is enough for everybody.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.model_server <<'EDIT'
        listener = listen(settings.bind_port)
=======
        if settings.bind_port != 8080:
            raise OSError(22, "only 8080 is supported")
        listener = listen(settings.bind_port)
EDIT
