# A failed load stays on the list, to be looked at.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.multi_model.registry <<'EDIT'
            await model.kill()
            self._forget(name)
=======
            await model.kill()
EDIT
