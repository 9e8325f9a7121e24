"""A trainer that does not move."""

from mxnet.gluon import Trainer


def still(self, batch_size, ignore_stale_grad=False):
    return None


Trainer.step = still
