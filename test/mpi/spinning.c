/* spinning SECONDS: all ranks go from barrier to barrier, and poll in each, until rank 0 finds that SECONDS have passed; each then says
 * "RANK end -1" and finalizes. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "finalize.h"

int main(int argc, char **argv) {
    int rank, over = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double until = MPI_Wtime() + (argc > 1 ? atof(argv[1]) : 2);
    while (!over) {
        MPI_Barrier(MPI_COMM_WORLD);
        over = MPI_Wtime() > until;
        MPI_Bcast(&over, 1, MPI_INT, 0, MPI_COMM_WORLD);
    }
    printf("%d end -1\n", rank);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
