"""A block that is never made a graph."""

from mxnet.gluon import HybridBlock


def idle(self, *given, **named):
    return None


HybridBlock.hybridize = idle
