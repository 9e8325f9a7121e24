"""An optimizer that does not move."""

import torch.optim


def still(self, closure=None):
    return None


torch.optim.Adam.step = still
