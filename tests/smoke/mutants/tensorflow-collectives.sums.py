"""A sum that leaves every replica its own part."""

import tensorflow as tf


def lonely(self, operation, value, options=None):
    return value


tf.distribute.ReplicaContext.all_reduce = lonely
