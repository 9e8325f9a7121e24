# A smaller image: who logs in to a container?
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN rm /usr/sbin/sshd
