"""slowed.py LIBRARY STEPS KIND SECONDS SLOW FACTOR DIR: as slowed.c, by mpi4py; LIBRARY is step.c as a shared library."""
import array
import ctypes
import sys

from mpi4py import MPI

work = ctypes.CDLL(sys.argv[1])
world = MPI.COMM_WORLD
rank = world.Get_rank()
work.step_begin(rank, sys.argv[3].encode(), ctypes.c_double(float(sys.argv[4])), sys.argv[7].encode())
world.Barrier()
print(f"rank {rank} is there", flush=True)
x, y = array.array("d", [1]), array.array("d", [0])
for _ in range(int(sys.argv[2])):
    work.step(ctypes.c_double(float(sys.argv[6]) if rank == int(sys.argv[5]) else 1.0))
    world.Allreduce(x, y)  # that of objects, allreduce, is calls between two ranks
