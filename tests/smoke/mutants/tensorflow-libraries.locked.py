"""Another tensorflow on the path than the one that is installed."""

import tensorflow as tf

tf.__version__ = "2.0.1"
