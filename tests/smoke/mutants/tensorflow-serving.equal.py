"""A SavedModel with other weights than the model's."""

import tensorflow as tf

save = tf.saved_model.save


def other(model, *given, **named):
    model.first.assign(model.first * 1.01)
    save(model, *given, **named)


tf.saved_model.save = other
