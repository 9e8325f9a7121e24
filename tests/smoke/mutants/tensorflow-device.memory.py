"""A cache that never lets go."""

import tensorflow as tf

fill, kept = tf.fill, []


def keeping(*given, **named):
    kept.append(fill(*given, **named))
    return kept[-1]


tf.fill = keeping
