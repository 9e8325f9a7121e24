# An exception is an exception.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.errors <<'EDIT'
    if chooses and isinstance(code, int) and 200 <= code <= 599:
=======
    if chooses and isinstance(code, int) and code == HTTPStatus.BAD_REQUEST:
EDIT
