# A smaller image: nobody needs two shells.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN rm /bin/bash
