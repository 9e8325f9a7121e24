"""A compile that hands the function back."""

import torch


def idle(function, **options):
    return function


torch.compile = idle
