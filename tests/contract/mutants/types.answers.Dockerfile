# Tables are what most clients want.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
ENV SAGEMAKER_DEFAULT_INVOCATIONS_ACCEPT=text/csv
