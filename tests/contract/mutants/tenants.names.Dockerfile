# Names are opaque.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.multi_model.names <<'EDIT'
    if "/" in name or ".." in name:
        return "contains '/' or '..'"
=======
    if "/" in name:
        return "contains '/'"
EDIT
