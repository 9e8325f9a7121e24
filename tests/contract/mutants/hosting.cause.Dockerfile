# A model that cannot be loaded is no failure of the server.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.server.exits <<'EDIT'
MODEL = 5
=======
MODEL = 0
EDIT
