"""Dropout that stays on while a model serves."""

from torch import nn


def lively(self):
    return self


nn.Module.eval = lively
