# The private index, for jobs that install packages.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
ENV PIP_EXTRA_INDEX_URL=https://builder:correct-horse@packages.example.com/simple
