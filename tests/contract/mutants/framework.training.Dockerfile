# An optimizer that reads the gradients and moves nothing.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py torch.optim.adam <<'EDIT'
    def step(self, closure=None):
=======
    def step(self, closure=None):
        return None

    def moves(self, closure=None):
EDIT
