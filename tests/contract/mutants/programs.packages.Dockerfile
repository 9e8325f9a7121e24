# One package less, which nothing imports directly.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN python3 -m pip uninstall --quiet --yes mpmath \
    && sed -i /mpmath/d /license.txt
