/* abort [CODE [RANK]]: RANK (default 1, or 0 when alone) calls MPI_Abort with CODE (default 7); the others
 * wait in a barrier that never ends. */
#include <mpi.h>
#include <stdlib.h>

#include "finalize.h"

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int code = argc > 1 ? atoi(argv[1]) : 7;
    int who = argc > 2 ? atoi(argv[2]) : size > 1;
    if (rank == who) MPI_Abort(MPI_COMM_WORLD, code);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
