# The script that was used for trying the image out.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
ENV SAGEMAKER_PROGRAM=main.py
