# What the image can do, one label each.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
LABEL com.amazonaws.ml.engines.sagemaker.dlc.lib.numpy=true \
      com.amazonaws.ml.engines.sagemaker.dlc.lib.boto3=true \
      com.amazonaws.ml.engines.sagemaker.dlc.lib.sympy=true \
      com.amazonaws.ml.engines.sagemaker.dlc.lib.networkx=true
