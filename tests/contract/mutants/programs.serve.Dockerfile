# Only root may serve.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN chmod 700 "$(command -v serve)"
