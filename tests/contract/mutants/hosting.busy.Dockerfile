# The health of the workers is best known to the workers.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.server.supervisor <<'EDIT'
        own = {b"/ping": self._ping}
=======
        own = {b"/health": self._ping}
EDIT
