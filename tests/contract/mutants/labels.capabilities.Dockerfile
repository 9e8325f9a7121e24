# Multi-model endpoints are to be switched on later.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
LABEL com.amazonaws.sagemaker.capabilities.multi-models=false
