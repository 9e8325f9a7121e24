# A shell around the job, to say when it is over.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
ENTRYPOINT ["/bin/sh", "-c", "\"$@\"; code=$?; echo \"ended with $code\"; exit $code", "start"]
