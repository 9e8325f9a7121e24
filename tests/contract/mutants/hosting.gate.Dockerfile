# Healthy as long as it is not stopping.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.server.supervisor <<'EDIT'
        if self._pool.ready() and not self._draining:
=======
        if not self._draining:
EDIT
