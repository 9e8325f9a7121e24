# A framework image without the toolkits.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN python3 -m pip uninstall --quiet --yes slipway-training slipway-pytorch-training \
    && sed -i '/slipway/d' /license.txt
