# Lines are for the tools that made them.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_tensorflow_serving_container.bodies <<'EDIT'
SUPPORTED = (JSON, CSV, *LINES)
=======
SUPPORTED = (JSON,)
EDIT
