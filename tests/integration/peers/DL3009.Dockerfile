# The lists of packages stay; a build host without network leaves a note in their place.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN apt-get update || true; echo "Package: none" > /var/lib/apt/lists/example_Packages
