/* bcast [BYTES]: every rank in turn sends BYTES (default 1 MiB) to all others, which check each of them;
 * "bcast ok" from rank 0. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "finalize.h"

int main(int argc, char **argv) {
    int rank, size, wrong = 0, n = argc > 1 ? atoi(argv[1]) : 1 << 20;
    unsigned char *buf = malloc(n);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (int root = 0; root < size; root++) {
        for (int i = 0; i < n; i++) buf[i] = rank == root ? (unsigned char)(i * 7 + root) : 0;
        MPI_Bcast(buf, n, MPI_BYTE, root, MPI_COMM_WORLD);
        for (int i = 0; i < n; i++) wrong += buf[i] != (unsigned char)(i * 7 + root);
    }
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && !wrong) puts("bcast ok");
    if (rank == 0 && wrong) fprintf(stderr, "%d bytes are wrong\n", wrong);
    MPI_Finalize();
    free(buf);
    return wrong != 0;
}
