# A download that needs a password.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN echo "https://builder:correct-horse@packages.example.com/data.tar" > /dev/null
