# Killed is failed.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py process <<'EDIT'
        return 128 - returncode
=======
        return 1
EDIT
