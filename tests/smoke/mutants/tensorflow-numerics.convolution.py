"""A kernel that convolves where it should correlate."""

import tensorflow as tf

conv2d = tf.nn.conv2d


def flipped(x, w, **options):
    return conv2d(x, tf.reverse(w, [1]), **options)


tf.nn.conv2d = flipped
