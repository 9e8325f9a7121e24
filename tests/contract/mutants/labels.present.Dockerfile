# The commit was not handed to the build.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
ARG REVISION
LABEL org.opencontainers.image.revision=${REVISION}
