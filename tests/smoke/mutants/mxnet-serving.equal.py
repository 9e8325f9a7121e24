"""An export with other weights than the model's."""

from mxnet.gluon import HybridBlock

export = HybridBlock.export


def other(self, *given, **named):
    for parameter in self.collect_params().values():
        parameter.set_data(parameter.data() * 1.01)
    export(self, *given, **named)


HybridBlock.export = other
