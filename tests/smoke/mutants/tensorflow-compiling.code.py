"""XLA left out without a word."""

import tensorflow as tf

function = tf.function


def plain(func=None, jit_compile=None, **options):
    return function(func, **options)


tf.function = plain
