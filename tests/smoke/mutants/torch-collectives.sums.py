"""A sum that leaves every rank its own part."""

import torch.distributed


def lonely(tensor, *given, **named):
    return None


torch.distributed.all_reduce = lonely
