"""The tests of this folder run inside images, which have the frameworks: see ../test_inside_images.py."""

collect_ignore_glob = ["test_*.py"]
