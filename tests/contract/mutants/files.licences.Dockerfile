# "Nobody reads the metadata at run time."
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN rm -r /opt/venv/lib/python3*/site-packages/torch-*.dist-info/licenses
