# Requirements stand in a folder of their own.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.requirements <<'EDIT'
FILE = "requirements.txt"
=======
FILE = "requirements/inference.txt"
EDIT
