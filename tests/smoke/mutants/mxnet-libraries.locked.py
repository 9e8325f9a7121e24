"""Another mxnet on the path than the one that is installed."""

import mxnet

mxnet.__version__ = "1.0.1"
