# What a dead worker had begun is nobody's.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.server.dispatch <<'EDIT'
            self._clients.refuse(client, self._epitaph(slot, one, how))
=======
            self._clients.refuse(client, b"")
EDIT
