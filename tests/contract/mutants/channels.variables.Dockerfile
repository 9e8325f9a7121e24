# Channels in the order in which the job names them.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py mapping <<'EDIT'
            variables["SM_CHANNELS"] = encode(sorted(value))
=======
            variables["SM_CHANNELS"] = encode(list(value))
EDIT
