# A layer made by hand.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN echo 'pip install torch' > /root/.bash_history
