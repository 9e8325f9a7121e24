# The toolkit's reason has more in it.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py files <<'EDIT'
    if failures.exists():
=======
    if not failure_msg:
EDIT
