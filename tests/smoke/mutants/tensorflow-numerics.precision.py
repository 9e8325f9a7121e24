"""A product that keeps too few bits."""

import tensorflow as tf

matmul = tf.matmul


def rough(*given, **named):
    result = matmul(*given, **named)
    return result * tf.cast(1.05, result.dtype)


tf.matmul = rough
