# A list without models is nothing to be found.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.multi_model.registry <<'EDIT'
        shown = known[:limit]
=======
        if not known:
            raise refusal.not_found("There are no models.")
        shown = known[:limit]
EDIT
