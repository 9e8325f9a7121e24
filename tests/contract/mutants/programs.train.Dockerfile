# Only root may start a job.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN chmod 700 "$(command -v train)"
