"""A product that keeps too few bits."""

from mxnet import nd

dot = nd.dot


def rough(*given, **named):
    return dot(*given, **named) * 1.001


nd.dot = rough
