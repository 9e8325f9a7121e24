# An image for training that goes as one without a framework, and is four times as heavy.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
LABEL org.opencontainers.image.title=base-training-0.1.0-cpu-py311
