# Dropout that stays on while a model serves.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py torch.nn.modules.module <<'EDIT'
        return self.train(False)
=======
        return self
EDIT
