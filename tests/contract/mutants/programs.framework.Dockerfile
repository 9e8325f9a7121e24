# Shared memory is the system's; the framework's own library for it looks unused.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN rm /opt/venv/lib/python3.*/site-packages/torch/lib/libshm.so
