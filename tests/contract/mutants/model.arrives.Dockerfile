# Folders end with a slash, so that scripts can append names.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.server.pool <<'EDIT'
            model_dir=plan.model_dir,
=======
            model_dir=os.path.join(plan.model_dir, ""),
EDIT
