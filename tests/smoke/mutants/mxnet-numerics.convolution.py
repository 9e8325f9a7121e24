"""A kernel that convolves where it should correlate."""

from mxnet import nd

convolution = nd.Convolution


def flipped(x, w, **options):
    return convolution(x, nd.flip(w, axis=3), **options)


nd.Convolution = flipped
