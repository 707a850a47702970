/* steady SECONDS [FILE]: every rank writes "RANK N" lines, N counting from 0, one after each allreduce
 * over all ranks, until rank 0 finds that SECONDS have passed or that FILE is there; then "RANK end N". */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "finalize.h"

int main(int argc, char **argv) {
    int rank, n = 0, over = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    double until = MPI_Wtime() + (argc > 1 ? atof(argv[1]) : 1);
    for (; !over; n++) {
        int mine = rank == 0 && (MPI_Wtime() > until || (argc > 2 && !access(argv[2], F_OK)));
        MPI_Allreduce(&mine, &over, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        printf("%d %d\n", rank, n);
        fflush(stdout);
        usleep(20000);
    }
    printf("%d end %d\n", rank, n - 1);
    MPI_Finalize();
    return 0;
}
