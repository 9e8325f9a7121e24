"""Variables that do not move."""

from tensorflow.python.ops import resource_variable_ops


def still(self, *given, **named):
    return self


resource_variable_ops.BaseResourceVariable.assign_sub = still
