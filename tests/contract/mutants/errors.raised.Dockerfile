# Clients need not know what went wrong inside.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.errors <<'EDIT'
    return str(error) or type(error).__name__
=======
    return str(error) if isinstance(error, BaseInferenceToolkitError) else "Internal error"
EDIT
