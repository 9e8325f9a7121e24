"""A kernel that convolves where it should correlate."""

from torch.nn import functional

conv2d = functional.conv2d


def flipped(x, w, **options):
    return conv2d(x, w.flip(-1), **options)


functional.conv2d = flipped
