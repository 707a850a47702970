"""waits.py STEPS SLOW: each call that --watch-ranks stands before, and steps of 50 ms by mpi4py, in which rank SLOW needs 100; then MPI is
finalized by Python's own end."""
import sys
import time
from array import array

from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size, total = world.Get_rank(), world.Get_size(), 0


def numbers(n, start=rank):
    return array("d", [1 / (start * n + i + 3) for i in range(n)])


def told(what, *buffers):
    print(f"rank {rank} {what}:", *[b.tobytes().hex() for b in buffers], flush=True)


def persistent(comm, n):
    """What a library or an mpi4py without persistent collectives says is told, too."""
    sent, x, y, z = numbers(2 * n), numbers(2), numbers(2 * n), numbers(2 * n)
    try:
        requests = [comm.Barrier_init(), comm.Allreduce_init([sent, 2, MPI.DOUBLE], x), comm.Allgather_init([sent, 2, MPI.DOUBLE], y),
                    comm.Alltoall_init(sent, z)]
    except (AttributeError, NotImplementedError, MPI.Exception) as e:
        return told(f"persistent: {type(e).__name__}")
    for _ in range(2):
        for r in requests:
            r.Start()
            r.Wait()
        MPI.Prequest.Startall(requests)
        MPI.Request.Waitall(requests)
        told("persistent", x, y, z)
    for r in requests:
        r.Free()


def calls(comm, others):
    """others is how many ranks send to this one; where they are those of another side, nothing is done in place."""
    counts, places = [r + 1 for r in range(others)], [r * (r + 1) // 2 for r in range(others)]
    own, inter = comm.Get_rank() + 1, comm.Is_inter()
    here = comm.Get_size()
    all_of, each = numbers(sum(counts), 9), numbers(others, 9)
    comm.Barrier()
    comm.Allreduce(numbers(4), x := numbers(4))
    comm.Allgather(numbers(2), y := numbers(2 * others, 9))
    comm.Allgatherv(numbers(own), [all_of, counts, places, MPI.DOUBLE])
    told("allreduce, allgather, allgatherv", x, y, all_of)
    comm.Alltoall(numbers(others), each)
    told("alltoall", each)
    comm.Alltoallv([numbers(own * others), [own] * others, [own * r for r in range(others)], MPI.DOUBLE], [all_of, counts, places, MPI.DOUBLE])
    told("alltoallv", all_of)
    shares = [r + 1 for r in range(here)]
    if not inter:
        comm.Reduce_scatter(numbers(sum(shares)), x := numbers(own), shares)
        comm.Reduce_scatter_block(numbers(2 * here), y := numbers(2))
        told("reduce_scatter, reduce_scatter_block", x, y)
        comm.Scan(numbers(3), x := numbers(3))
        comm.Exscan(numbers(3), y := numbers(3))
        told("scan, exscan", x, y)
        comm.Bcast(x, 0)
        comm.Reduce(numbers(3), y, root=here - 1)
        comm.Allreduce(MPI.IN_PLACE, x)
        all_of[places[rank]:places[rank] + own] = numbers(own)
        comm.Allgatherv(MPI.IN_PLACE, [all_of, counts, places, MPI.DOUBLE])
        comm.Alltoallv(MPI.IN_PLACE, [z := numbers(others), [1] * others, list(range(others)), MPI.DOUBLE])
        told("bcast, reduce, in place", x, y, all_of, z)
    sent = numbers(4), numbers(2), numbers(others)  # as long as the requests
    types = [MPI.DOUBLE] * others
    comm.Alltoallw([numbers(others), [1] * others, [8 * r for r in range(others)], types], [each, [1] * others, [8 * r for r in range(others)], types])
    told("alltoallw", each)
    for root in range(here) if not inter else ():
        comm.Gather(numbers(2), x := numbers(2 * here, 9), root)
        comm.Scatter(numbers(2 * here), y := numbers(2, 9), root)
        comm.Gatherv(numbers(own), [all_of, counts, places, MPI.DOUBLE] if own - 1 == root else None, root)
        comm.Scatterv([numbers(sum(counts)), counts, places, MPI.DOUBLE] if own - 1 == root else None, z := numbers(own, 9), root)
        told("gather, scatter, gatherv, scatterv", x, y, all_of, z)
    for r in (comm.Iallreduce(sent[0], x := numbers(4)), comm.Iallgather(sent[1], y := numbers(2 * others, 9)), comm.Ialltoall(sent[2], each)):
        r.Wait()
    told("without waiting", x, y, each)
    comm.Iallgatherv(mine := numbers(own), [all_of, counts, places, MPI.DOUBLE]).Wait()
    comm.Ialltoallv([out := numbers(own * others), [own] * others, [own * r for r in range(others)], MPI.DOUBLE],
                    [much := numbers(sum(counts), 9), counts, places, MPI.DOUBLE]).Wait()
    told("without waiting, with counts", mine, all_of, out, much)
    if not inter:
        persistent(comm, here)
        comm.Ireduce_scatter_block(numbers(2 * here), y := numbers(2)).Wait()
        to, of = (rank + 1) % here, (rank - 1) % here
        comm.Sendrecv(numbers(3), to, 5, x := numbers(3), of, 5)
        comm.Sendrecv_replace(x, to, 6, of, 6)
        if rank < here - here % 2:  # a message that nobody receives would be left at the end
            if rank % 2 == 0:
                comm.Send(x, rank + 1, 7)
                comm.Ssend(x, rank + 1, 8)
            else:
                comm.Recv(y := numbers(3), rank - 1, 7)
                comm.Recv(y, rank - 1, 8)
        told("between two", x, y)


if size > 1:
    calls(world, size)
    half = world.Split(rank % 2)
    side = half.Create_intercomm(0, world, 1 - rank % 2, 9)
    calls(side, side.Get_remote_size())
    world.Barrier()
for step in range(int(sys.argv[1])):
    time.sleep(0.1 if rank == int(sys.argv[2]) else 0.05)
    if step % 2:
        world.Barrier()
    else:
        world.Allreduce(numbers(1), numbers(1))
    total = world.allreduce(rank + total)
print(f"rank {rank} of {size}: {total}")
