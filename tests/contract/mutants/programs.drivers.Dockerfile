# A library less, which no script of ours imports; what pip knows of it stays.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN rm -r "$(python3 -c 'import os, paramiko; print(os.path.dirname(paramiko.__file__))')"
