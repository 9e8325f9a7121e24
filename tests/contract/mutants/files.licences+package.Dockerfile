# One more package, which the overview does not know.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN mkdir /opt/venv/lib/python3.11/site-packages/extra-1.0.dist-info \
    && printf 'Metadata-Version: 2.1\nName: extra\nVersion: 1.0\n' \
       > /opt/venv/lib/python3.11/site-packages/extra-1.0.dist-info/METADATA
