"""A kernel that miscounts."""

from mxnet import nd

arange = nd.arange


def more(*given, **named):
    return arange(*given, **named) + 1


nd.arange = more
