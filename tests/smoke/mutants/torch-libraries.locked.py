"""Another torch on the path than the one that is installed."""

import torch

torch.__version__ = "2.0.1"
