# Nobody waits for an interim answer.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.server.protocol <<'EDIT'
            self._wire.interim(CONTINUE)
=======
            pass
EDIT
