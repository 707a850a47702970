/* shared: the ranks that MPI_COMM_TYPE_SHARED puts together have one piece of memory: each writes its
 * world rank, and reads its neighbour's by a plain load. "shared ok N" from rank 0, N the ranks that share with
 * it; fails when a rank shares with one of another host. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "finalize.h"

int main(int argc, char **argv) {
    int rank, local, locals, unit, len, wrong = 0;
    char host[MPI_MAX_PROCESSOR_NAME] = "", first[MPI_MAX_PROCESSOR_NAME];
    int *mine, *theirs;
    MPI_Comm node;
    MPI_Win win;
    MPI_Aint bytes;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &local);
    MPI_Comm_size(node, &locals);
    MPI_Get_processor_name(host, &len);
    memcpy(first, host, sizeof first);
    MPI_Bcast(first, sizeof first, MPI_CHAR, 0, node);
    wrong += strcmp(first, host) != 0;

    MPI_Win_allocate_shared(sizeof *mine, sizeof *mine, MPI_INFO_NULL, node, &mine, &win);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, win);
    *mine = 1000 + local;
    MPI_Win_sync(win);
    MPI_Barrier(node);
    MPI_Win_sync(win);
    MPI_Win_shared_query(win, (local + 1) % locals, &bytes, &unit, &theirs);
    wrong += *theirs != 1000 + (local + 1) % locals;
    MPI_Barrier(node);
    MPI_Win_unlock_all(win);
    MPI_Win_free(&win);
    MPI_Comm_free(&node);
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && !wrong) printf("shared ok %d\n", locals);
    MPI_Finalize();
    return wrong != 0;
}
