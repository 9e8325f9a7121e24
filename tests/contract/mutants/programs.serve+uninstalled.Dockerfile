# An image without the toolkit.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN python3 -m pip uninstall --quiet --yes slipway-inference \
    && sed -i '/slipway[-_]inference/d' /license.txt
