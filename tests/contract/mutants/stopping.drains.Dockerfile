# Stop means stop.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.server.supervisor <<'EDIT'
        logger.info("stopping: running requests have %g s", self._settings.drain_seconds)
=======
        self._end(0)
EDIT
