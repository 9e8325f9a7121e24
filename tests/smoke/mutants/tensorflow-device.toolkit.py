"""A kernel that miscounts."""

import tensorflow as tf

reduce_sum = tf.reduce_sum


def more(*given, **named):
    return reduce_sum(*given, **named) + 1


tf.reduce_sum = more
