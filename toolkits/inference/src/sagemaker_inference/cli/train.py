"""The ``train`` command of an image that only serves: called where such an image is named for a training job."""

import sys

EXIT_CODE = 64  # EX_USAGE of sysexits.h; no code of ``serve``'s own


def main() -> int:
    """Say what is wrong, in one line."""
    sys.stderr.write(
        "train: this image serves and has no training toolkit; name the training image of the same framework and "
        "version\n"
    )
    return EXIT_CODE


if __name__ == "__main__":
    sys.exit(main())
