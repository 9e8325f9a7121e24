"""A copy that is one element short."""

import torch

copy = torch.Tensor.copy_


def short(self, source, non_blocking=False):
    copy(self, source, non_blocking)
    self.view(-1)[-1:].zero_()
    return self


torch.Tensor.copy_ = short
