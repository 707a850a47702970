/* second [COMMAND [RANK]]: an MPI program that runs a command by system(3) between MPI_Init and MPI_Finalize: in each rank,
 * or in one. Each writes "child of rank R ended with CODE", and all "rank R of N ends" after a barrier; without a command
 * "inner R of N ends". */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "finalize.h"

int main(int argc, char **argv) {
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc == 2 || (argc == 3 && rank == atoi(argv[2]))) {
        int status = system(argv[1]);
        printf("child of rank %d ended with %d\n", rank, WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status));
        fflush(stdout);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    printf("%s %d of %d ends\n", argc > 1 ? "rank" : "inner", rank, size);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
