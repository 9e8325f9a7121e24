# A variable that nobody seems to read.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py environment <<'EDIT'
    "network_interface_name",
=======
EDIT
