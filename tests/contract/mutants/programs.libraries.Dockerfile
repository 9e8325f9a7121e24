# Nobody trains on WebP.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN rm /opt/venv/lib/python3.*/site-packages/pillow.libs/libwebpmux-*
