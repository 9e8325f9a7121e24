# Workers as many as there are CPUs, in a word.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
ENV MMS_JOB_QUEUE_SIZE=auto
