"""waits.py STEPS SLOW: steps of 50 ms by mpi4py, in which rank SLOW needs 100; then MPI is finalized by Python's own end."""
import sys
import time

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, total = world.Get_rank(), 0
for _ in range(int(sys.argv[1])):
    time.sleep(0.1 if rank == int(sys.argv[2]) else 0.05)
    world.Barrier()
    total = world.allreduce(rank + total)
print(f"rank {rank} of {world.Get_size()}: {total}")
