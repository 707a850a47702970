// Prints MPI_UNIVERSE_SIZE, from rank 0.
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    int *size, set, rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_UNIVERSE_SIZE, &size, &set);
    if (rank == 0 && set)
        printf("universe of %d\n", *size);
    else if (rank == 0)
        printf("no universe\n");
    MPI_Finalize();
    return 0;
}
