# A smaller image: the environment has a Python of its own, it seems.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN rm /usr/bin/python3
