"""A tf.function that hands the function back."""

import tensorflow as tf


def idle(function=None, **options):
    return function if function is not None else idle


tf.function = idle
