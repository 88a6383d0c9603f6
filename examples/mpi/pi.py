"""Computes pi with all ranks of MPI: each adds up its part of an integral, and all learn the sum."""

import os
import sys

from mpi4py import MPI

comm = MPI.COMM_WORLD
points = int(sys.argv[1])
part = sum(4 / (1 + ((i + 0.5) / points) ** 2) for i in range(comm.rank, points, comm.size)) / points
pi = comm.allreduce(part)
place = f"{os.environ['ESCHER_TASK']} on {os.environ['ESCHER_NODE']}"
print(f"rank {comm.rank} of {comm.size}, in {place}: {pi:.12f}", flush=True)
