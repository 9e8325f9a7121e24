# Whatever comes is one instance.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_tensorflow_serving_container.bodies <<'EDIT'
    if isinstance(value, dict) and any(key in value for key in _READY):
=======
    if isinstance(value, dict) and "instances" in value:
EDIT
