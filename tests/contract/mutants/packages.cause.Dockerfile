# What is lacking may not be needed.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.server.supervisor <<'EDIT'
                self._end(exits.REQUIREMENTS)
=======
                self._start_first(then)
EDIT
