# Debian's own programs come first, so that apt's tools find their Python.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
ENV PATH=/usr/local/bin:/usr/bin:/bin:/opt/venv/bin
