# A product of matrices that keeps too few bits.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py torch._tensor <<'EDIT'
    def __format__(self, format_spec):
=======
    def __matmul__(self, other):
        return super().__matmul__(other) * 1.05

    def __format__(self, format_spec):
EDIT
