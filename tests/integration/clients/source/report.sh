#!/bin/sh
exec python report.py "$@"
