"""A tape whose slopes are all flat."""

import tensorflow as tf

gradient = tf.GradientTape.gradient


def flat(self, target, sources, *given, **named):
    return [tf.zeros_like(one) for one in gradient(self, target, sources, *given, **named)]


tf.GradientTape.gradient = flat
