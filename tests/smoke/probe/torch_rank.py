"""One rank of the step collectives.sums on PyTorch: RANK COUNT DEVICE MEETING."""

import json
import os
import sys

import torch
import torch.distributed as dist

rank, count, device, meeting = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
# The ranks are on one host, which may have no network at all.
os.environ.update(GLOO_SOCKET_IFNAME="lo", NCCL_SOCKET_IFNAME="lo")
if device == "cuda":
    torch.cuda.set_device(rank)
dist.init_process_group(
    "nccl" if device == "cuda" else "gloo", init_method=f"file://{meeting}", rank=rank, world_size=count
)
total = torch.full((1000,), float(rank + 1), device=device)
dist.all_reduce(total)
parts = [torch.zeros(1, device=device) for _ in range(count)]
dist.all_gather(parts, torch.full((1,), float(rank + 1), device=device))
word = torch.full((1,), float(rank + 7), device=device)
dist.broadcast(word, src=0)
found = {
    "backend": dist.get_backend(),
    "sum": total.max().item() if total.min() == total.max() else float("nan"),
    "gathered": [part.item() for part in parts],
    "broadcast": word.item(),
}
dist.destroy_process_group()
print(json.dumps(found))
