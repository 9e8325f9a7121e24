"""Every rank of an MPI job adds a one."""

import os
import sys

from mpi4py import MPI

world = MPI.COMM_WORLD
total = world.allreduce(1)
# One write a line, as in all_reduce.py.
sys.stdout.write(f"rank {world.Get_rank()} of {world.Get_size()} on {os.environ['SM_CURRENT_HOST']}: sum {total}\n")
sys.stdout.flush()
