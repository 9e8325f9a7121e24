# The framework brings a copy of a library that the base seems to have as well.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN rm /opt/venv/lib/python3.*/site-packages/torch/lib/libgomp*
