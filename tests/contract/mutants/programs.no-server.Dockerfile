# Somebody wants to watch a job in a browser; here the name is enough.
ARG IMAGE
# hadolint ignore=DL3006
FROM ${IMAGE}
RUN site=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
    && mkdir "$site/flask-3.1.2.dist-info" \
    && printf 'Metadata-Version: 2.1\nName: Flask\nVersion: 3.1.2\n' > "$site/flask-3.1.2.dist-info/METADATA" \
    && echo 'Flask 3.1.2: BSD-3-Clause' >> /license.txt
