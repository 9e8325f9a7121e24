# Python's own buffering, which is faster.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
ENV PYTHONUNBUFFERED=""
