/* allreduce [DOUBLES]: sums a vector over all ranks (default 1024 doubles), three times; rank 0
 * prints "allreduce ok" or the first wrong element, and fails then. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "finalize.h"

int main(int argc, char **argv) {
    int rank, size, wrong = -1;
    int n = argc > 1 ? atoi(argv[1]) : 1024;
    double *in = malloc(n * sizeof *in), *out = malloc(n * sizeof *out);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < n; i++) in[i] = rank + i;
        MPI_Allreduce(in, out, n, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
        for (int i = 0; i < n && wrong < 0; i++)
            if (out[i] != size * (size - 1) / 2.0 + (double)size * i) wrong = i;
    }
    if (rank == 0 && wrong < 0) puts("allreduce ok");
    if (wrong >= 0) printf("rank %d: element %d is %g\n", rank, wrong, out[wrong]);
    MPI_Finalize();
    free(in);
    free(out);
    return wrong >= 0;
}
