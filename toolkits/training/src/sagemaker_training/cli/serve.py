"""The ``serve`` command of an image that only trains: called where such an image is named for a model."""

import sys

EXIT_CODE = 64  # EX_USAGE of sysexits.h; no code of ``train``'s own


def main() -> int:
    """Say what is wrong, in one line."""
    sys.stderr.write(
        "serve: this image trains and has no model server; name the inference image of the same framework and version\n"
    )
    return EXIT_CODE


if __name__ == "__main__":
    sys.exit(main())
