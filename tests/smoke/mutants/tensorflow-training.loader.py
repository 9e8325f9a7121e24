"""Batches of samples in any order."""

import tensorflow as tf

batch = tf.data.Dataset.batch


def shuffled(self, *given, **named):
    return batch(self.shuffle(96, seed=1), *given, **named)


tf.data.Dataset.batch = shuffled
