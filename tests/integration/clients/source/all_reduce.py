"""Every rank of a torch.distributed job adds a one, and the first leaves the sum."""

import os
import sys
from pathlib import Path

import torch
import torch.distributed as dist

dist.init_process_group("gloo")
total = torch.ones(1)
dist.all_reduce(total)
host = os.environ["SM_CURRENT_HOST"][:6]
# One write a line: unbuffered, print() writes the newline by itself, and another rank gets in between.
sys.stdout.write(f"rank {dist.get_rank()} of {dist.get_world_size()} on {host}: sum {int(total)}\n")
sys.stdout.flush()
if dist.get_rank() == 0:
    Path("/opt/ml/model/sum").write_text(str(int(total)))
# The first host to end ends the job: none may be left in a collective.
dist.barrier()
dist.destroy_process_group()
