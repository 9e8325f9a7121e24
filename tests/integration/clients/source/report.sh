exec python report.py "$@"
