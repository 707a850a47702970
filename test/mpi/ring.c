/* ring: a token goes round all ranks, each adds its rank; rank 0 prints "ring SUM" and fails
 * unless it is N(N-1)/2. */
#include <mpi.h>
#include <stdio.h>

#include "finalize.h"

int main(int argc, char **argv) {
    int rank, size, sum = 0;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (size > 1) {
        int next = (rank + 1) % size, before = (rank + size - 1) % size;
        if (rank == 0) {
            MPI_Send(&sum, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
            MPI_Recv(&sum, 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        } else {
            MPI_Recv(&sum, 1, MPI_INT, before, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
            sum += rank;
            MPI_Send(&sum, 1, MPI_INT, next, 0, MPI_COMM_WORLD);
        }
    }
    if (rank == 0) printf("ring %d\n", sum);
    MPI_Finalize();
    return rank == 0 && sum != size * (size - 1) / 2;
}
