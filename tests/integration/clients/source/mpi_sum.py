"""Every rank of an MPI job adds a one."""

import os

from mpi4py import MPI

world = MPI.COMM_WORLD
total = world.allreduce(1)
print(f"rank {world.Get_rank()} of {world.Get_size()} on {os.environ['SM_CURRENT_HOST']}: sum {total}", flush=True)
