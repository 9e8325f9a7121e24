#!/bin/sh
# What PATH leads to; then, if there is a Python, what only it can tell quickly.
for name in train serve java python python3 pip pip3 bash torchrun mpirun ssh sshd; do
    printf 'program\t%s\t%s\n' "$name" "$(command -v "$name")"
done
python=$(command -v python3 || command -v python) || exit
for part in licences look; do
    "$python" -I "/run/slipway-probe/$part.py"
done
