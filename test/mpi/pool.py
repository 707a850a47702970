"""pool: mpi4py.futures over started ranks (-m mpi4py.futures) or over spawned workers; "pool ok N" says how many worked."""
import os
import time

from mpi4py.futures import MPIPoolExecutor


def square(x):
    time.sleep(0.01)
    return x * x, (os.uname().nodename, os.getpid())


if __name__ == "__main__":
    with MPIPoolExecutor(max_workers=int(os.environ.get("POOL_WORKERS", "2"))) as pool:
        pool.bootup(wait=True)
        results = list(pool.map(square, range(40)))
    assert [r for r, _ in results] == [x * x for x in range(40)], results
    print("pool ok", len({who for _, who in results}), flush=True)
