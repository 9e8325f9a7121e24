# Workers that read a batch backwards.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py torch.utils.data._utils.fetch <<'EDIT'
                data = [self.dataset[idx] for idx in possibly_batched_index]
=======
                data = [self.dataset[idx] for idx in reversed(possibly_batched_index)]
EDIT
