# The sources of the build, for debugging.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
COPY edit.py /tmp/build/
