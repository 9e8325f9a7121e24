"""A cache that never lets go."""

import torch

ones, kept = torch.ones, []


def keeping(*given, **named):
    kept.append(ones(*given, **named))
    return kept[-1]


torch.ones = keeping
