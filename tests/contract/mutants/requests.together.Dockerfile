# A short queue, so that nobody waits for long.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
ENV MMS_JOB_QUEUE_SIZE=2
