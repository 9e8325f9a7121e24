"""A checkpoint that comes back almost as it was."""

import tensorflow as tf

read = tf.train.Checkpoint.read


def near(self, *given, **named):
    status = read(self, *given, **named)
    self.model.bias.assign_add(1e-6 * tf.ones_like(self.model.bias))
    return status


tf.train.Checkpoint.read = near
