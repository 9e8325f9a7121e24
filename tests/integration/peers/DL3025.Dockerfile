# A shell stands between the platform and the job.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
ENTRYPOINT train; echo "ended with $?"
