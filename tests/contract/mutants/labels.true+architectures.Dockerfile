# GPUs that the framework was not compiled for.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
LABEL io.slipway.cuda.architectures="sm_80 sm_90"
