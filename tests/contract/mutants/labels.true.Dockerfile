# The new version's label, before the new version.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
LABEL com.amazonaws.ml.engines.sagemaker.dlc.framework.pytorch.2-99-0=true
