"""waits.py HOW [SECONDS]: ranks of torch that wait for each other in vain, by Gloo; the last rank is another one's reason unless HOW says else.

    sleep spin read      it sleeps, computes or reads from a pipe, the others are in all_reduce
    barrier recv object  likewise, they are in barrier, recv from it (rank 0 alone), all_gather_object
    monitored all        likewise, in monitored_barrier, which names the first, or all that did not come
    mixed mixed3         it is in broadcast, the others in all_reduce; in all_gather, they are in broadcast
    mixedmpi mixedmpi3   of mpi4py: it is in MPI_Bcast of rank 1, the others in MPI_Allreduce; in MPI_Barrier, and in MPI_Allgather
    said                 rank 0 says that rank 1 did not pass, which waits with the others
    watchdog             rank 0 writes what NCCL's watchdog does, and aborts; the last one sleeps
"""

import datetime
import os
import sys
import time

how = sys.argv[1]
limit = datetime.timedelta(seconds=float(sys.argv[2]) if len(sys.argv) > 2 else 3)
rank, size = int(os.environ["MPIUP_RANK"]), int(os.environ["MPIUP_SIZE"])
last = rank == size - 1


def evaluate():
    if how == "spin":
        while True:
            sum(range(1000))
    if how == "read":
        os.read(os.pipe()[0], 1)
    time.sleep(1000)


def watchdog():
    if rank == 0:
        time.sleep(1)
        print("[rank0]:[E1128 20:00:00.000000000 ProcessGroupNCCL.cpp:683] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=4, "
              "OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1000) ran for 1002 milliseconds before timing out.", file=sys.stderr, flush=True)
        os.abort()
    evaluate()


def mixed_mpi():
    from mpi4py import MPI
    world = MPI.COMM_WORLD
    data = bytearray(1 << 24)
    if how == "mixedmpi3":
        world.Barrier() if last else world.Allgather(data, bytearray(size << 24))
    elif last:
        world.Bcast(data, 1)
    else:
        world.Allreduce(MPI.IN_PLACE, data)


if how == "watchdog":
    watchdog()
if how.startswith("mixedmpi"):
    mixed_mpi()
    sys.exit(0)

import torch
import torch.distributed as dist

dist.init_process_group("gloo", timeout=limit)
x = torch.ones(1000)
dist.all_reduce(x)


def step():
    if how in ("mixed", "mixed3"):
        y = torch.ones(1 << 22)
        if how == "mixed":
            dist.broadcast(y, 1) if last else dist.all_reduce(y)
        else:
            dist.all_gather([torch.ones(1 << 22) for _ in range(size)], y) if last else dist.broadcast(y, size - 1)
        dist.barrier()
        return
    if how == "said" and rank == 0:
        raise RuntimeError("[Rank 0]: Rank 1 failed to pass monitoredBarrier in 2000 ms")
    if how == "said":
        dist.all_reduce(x)
        time.sleep(1000)
    if last:
        evaluate()
    if how == "barrier":
        dist.barrier()
    if how == "recv":
        dist.recv(x, size - 1) if rank == 0 else time.sleep(0)
    if how == "object":
        dist.all_gather_object([None] * size, rank)
    if how in ("monitored", "all"):
        dist.monitored_barrier(timeout=limit, wait_all_ranks=how == "all")
    dist.all_reduce(x)


print(f"rank {rank} is there", flush=True)
step()
time.sleep(1000)
