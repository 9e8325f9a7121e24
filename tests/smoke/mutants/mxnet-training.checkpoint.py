"""A checkpoint that comes back almost as it was."""

from mxnet.gluon import Block

load = Block.load_parameters


def near(self, *given, **named):
    load(self, *given, **named)
    for parameter in self.collect_params().values():
        parameter.set_data(parameter.data() * 1.0001)


Block.load_parameters = near
