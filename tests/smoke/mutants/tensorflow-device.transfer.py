"""A copy whose last element is lost."""

import tensorflow as tf

identity = tf.identity


def short(given, *more, **named):
    result = identity(given, *more, **named)
    return tf.concat([result[:-1], tf.zeros_like(result[-1:])], 0)


tf.identity = short
