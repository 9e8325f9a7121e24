"""Embeddings that are never twice the same."""

import tensorflow as tf

gather = tf.gather


def noisy(*given, **named):
    result = gather(*given, **named)
    return result + tf.random.uniform(tf.shape(result)) if result.dtype == tf.float32 else result


tf.gather = noisy
