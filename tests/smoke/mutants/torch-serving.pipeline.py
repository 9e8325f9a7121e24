"""Embeddings that are never twice the same."""

import torch
from torch import nn

forward = nn.Embedding.forward


def noisy(self, given):
    result = forward(self, given)
    return result + torch.rand_like(result)


nn.Embedding.forward = noisy
