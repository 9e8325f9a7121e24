"""Writes a SavedModel that doubles its input, `1/` below the folder in the first argument."""

import sys

import tensorflow as tf


class Double(tf.Module):
    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def __call__(self, x):
        return {"y": 2.0 * x}


model = Double()
tf.saved_model.save(model, sys.argv[1] + "/double/1", signatures=model.__call__)
