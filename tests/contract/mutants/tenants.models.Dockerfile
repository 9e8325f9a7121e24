# Loading twice does no harm.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.multi_model.registry <<'EDIT'
            raise refusal.conflict(f"Model {name!r} {self._models[name].state.value}.")
=======
            return
EDIT
