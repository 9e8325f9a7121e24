# Every fault of the client is a bad request.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.errors <<'EDIT'
    default_status = HTTPStatus.UNSUPPORTED_MEDIA_TYPE.value
=======
    default_status = HTTPStatus.BAD_REQUEST.value
EDIT
