"""A half-precision product that keeps too few bits."""

import torch

product = torch.Tensor.__matmul__


def rough(self, other):
    result = product(self, other)
    return result * 1.05 if result.dtype == torch.float16 else result


torch.Tensor.__matmul__ = rough
