/* hello: each rank prints "rank R of N on HOST, L of M there" after a barrier. */
#include <mpi.h>
#include <stdio.h>

#include "finalize.h"

int main(int argc, char **argv) {
    int rank, size, local, locals, len;
    char host[MPI_MAX_PROCESSOR_NAME];
    MPI_Comm node;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Get_processor_name(host, &len);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
    MPI_Comm_rank(node, &local);
    MPI_Comm_size(node, &locals);
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d of %d on %s, %d of %d there\n", rank, size, host, local, locals);
    MPI_Comm_free(&node);
    MPI_Finalize();
    return 0;
}
