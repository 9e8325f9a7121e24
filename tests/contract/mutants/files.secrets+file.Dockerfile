# Credentials for the same index, in a file.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN printf 'machine packages.example.com login builder password correct-horse\n' > /root/.netrc
