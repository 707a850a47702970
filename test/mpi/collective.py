"""collective: mpi4py's objects over all ranks; "collective ok N ranks, M hosts" from rank 0."""
import socket

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.Get_rank(), world.Get_size()
hosts = world.allgather(socket.gethostname())
word = world.bcast({"word": "x" * 100000} if rank == 0 else None)
token = world.sendrecv(rank, dest=(rank + 1) % size, source=(rank - 1) % size)
total = world.allreduce(rank)
assert len(word["word"]) == 100000 and token == (rank - 1) % size and total == size * (size - 1) // 2
if rank == 0:
    print(f"collective ok {size} ranks, {len(set(hosts))} hosts, {MPI.Get_library_version().split(chr(10))[0]}")
