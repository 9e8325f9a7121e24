# The tag of another Python.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
LABEL org.opencontainers.image.version=2.13.0-cpu-py312-debian12
