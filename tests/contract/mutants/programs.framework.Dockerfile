# A part of the framework that looks like an older API than the one that is used.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN rm /opt/venv/lib/python3.*/site-packages/torch/functional.py
