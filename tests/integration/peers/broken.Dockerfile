# Three faults of tests/contract/mutants in one image.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
ARG REVISION
LABEL org.opencontainers.image.revision=${REVISION}
RUN chmod 700 "$(command -v train)" && echo 'pip install torch' > /root/.bash_history
