#!/bin/sh
# Builds these images with nothing but Docker's buildx, mmdebstrap and Python's pip. Options go to `docker buildx bake`.
#   WHEELS=/folder ./build.sh    takes wheels from a folder first; those that the locks do not name are never used
# What mmdebstrap's own shell expands stands in single quotes.
# shellcheck disable=SC2016
set -eu
cd "$(dirname "$0")"

host_apt=
trap 'rm -f "$host_apt"' EXIT
trap 'exit 130' INT TERM
if [ ! -f base-debian12/rootfs-b4f5778b6dfd.tar ]; then
    echo "making base-debian12/rootfs-b4f5778b6dfd.tar from Debian's packages" >&2
    host_apt=$(mktemp)
    apt-config dump Acquire 2>/dev/null | grep -E '^Acquire::(https?::|Check-|Retries |ForceIPv)' >"$host_apt" || :
    env LC_ALL=C.UTF-8 SOURCE_DATE_EPOCH=1700000000 mmdebstrap --variant=minbase --architectures=amd64 --format=tar --include=ca-certificates,python3,python3-venv,usr-is-merged --hook-dir=/usr/share/mmdebstrap/hooks/merged-usr --keyring=/usr/share/keyrings/debian-archive-keyring.gpg '--aptopt=Acquire::Languages none' '--dpkgopt=path-exclude=/usr/share/man/*' '--dpkgopt=path-exclude=/usr/share/doc/*' '--dpkgopt=path-include=/usr/share/doc/*/copyright' '--dpkgopt=path-exclude=/usr/share/locale/*' '--setup-hook=upload '"$host_apt"' /etc/apt/apt.conf.d/98slipway-host' '--customize-hook=rm -f "$1/etc/apt/apt.conf.d/98slipway-host" "$1/etc/hostname" "$1/etc/resolv.conf"' '--customize-hook=find "$1/var/log" -type f -exec truncate -s 0 {} +' '--customize-hook=rm -f "$1"/etc/passwd- "$1"/etc/group- "$1"/etc/shadow- "$1"/etc/gshadow- "$1"/etc/subuid- "$1"/etc/subgid-' '--customize-hook=rm -f "$1"/var/cache/debconf/*-old "$1"/var/lib/dpkg/*-old' '--customize-hook=PYTHONHASHSEED=0 chroot "$1" python3 -m compileall -q -f --invalidation-mode unchecked-hash -x lib2to3/tests /usr/lib/python3 /usr/lib/python3.11 /usr/share/python3' bookworm base-debian12/rootfs-b4f5778b6dfd.tar.part
    rm -f "$host_apt"
    mv base-debian12/rootfs-b4f5778b6dfd.tar.part base-debian12/rootfs-b4f5778b6dfd.tar
fi
rm -f base-training-0.1.0-gpu-py311-cu130/wheels/*.whl
SOURCE_DATE_EPOCH=1700000000 python3 -m pip wheel --quiet --no-deps --wheel-dir base-training-0.1.0-gpu-py311-cu130/wheels ./toolkits/training
# Stages between are kept in the builder's cache, not loaded into the engine as images of their own.
exec env BUILDX_NO_DEFAULT_LOAD=1 docker buildx bake --file docker-bake.json --provenance=false "$@"
