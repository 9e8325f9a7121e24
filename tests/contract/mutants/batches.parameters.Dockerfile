# Batch jobs say themselves how much they send.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN --mount=type=bind,target=/run/mutants python3 /run/mutants/edit.py sagemaker_inference.server.app <<'EDIT'
{INVOCATIONS: "POST", PING: "GET", PARAMETERS: "GET"}
=======
{INVOCATIONS: "POST", PING: "GET"}
EDIT
