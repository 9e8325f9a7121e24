# The limit that Multi Model Server had.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.settings <<'EDIT'
_LARGEST_REQUEST = 1024 * values.MIB
=======
_LARGEST_REQUEST = 6553500
EDIT
