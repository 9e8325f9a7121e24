# Functions get the header as it was sent.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.function_service <<'EDIT'
        self.kind = content_type.type
=======
        self.kind = kind.decode() if kind else None
EDIT
