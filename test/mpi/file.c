/* file PATH: all ranks write their part of a file (MPI-IO), collectively and each on its own, and read what
 * the next one wrote; PATH must be seen by all hosts. "file ok" from rank 0. */
#include <mpi.h>
#include <stdio.h>

#include "finalize.h"

enum { N = 1000 };

static int fail(int rank, const char *what, int rc) {
    char text[MPI_MAX_ERROR_STRING];
    int len;
    MPI_Error_string(rc, text, &len);
    fprintf(stderr, "rank %d: %s: %s\n", rank, what, text);
    MPI_Abort(MPI_COMM_WORLD, 9);
    return 1;
}
#define OK(call) do { int rc_ = (call); if (rc_ != MPI_SUCCESS) return fail(rank, #call, rc_); } while (0)

int main(int argc, char **argv) {
    int rank, size, part[N], wrong = 0;
    MPI_File f;
    MPI_Offset bytes;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int next = (rank + 1) % size;
    OK(MPI_File_open(MPI_COMM_WORLD, argv[1], MPI_MODE_CREATE | MPI_MODE_RDWR, MPI_INFO_NULL, &f));
    for (int half = 0; half < 2; half++) {
        MPI_Offset at = (MPI_Offset)sizeof part * (half * size + rank);
        for (int i = 0; i < N; i++) part[i] = half * 1000000 + rank * N + i;
        if (half) OK(MPI_File_write_at(f, at, part, N, MPI_INT, MPI_STATUS_IGNORE));
        else OK(MPI_File_write_at_all(f, at, part, N, MPI_INT, MPI_STATUS_IGNORE));
    }
    OK(MPI_File_sync(f));
    MPI_Barrier(MPI_COMM_WORLD);
    OK(MPI_File_sync(f));
    for (int half = 0; half < 2; half++) {
        OK(MPI_File_read_at_all(f, (MPI_Offset)sizeof part * (half * size + next), part, N, MPI_INT, MPI_STATUS_IGNORE));
        for (int i = 0; i < N; i++) wrong += part[i] != half * 1000000 + next * N + i;
    }
    OK(MPI_File_get_size(f, &bytes));
    wrong += bytes != (MPI_Offset)sizeof part * 2 * size;
    OK(MPI_File_close(&f));
    MPI_Allreduce(MPI_IN_PLACE, &wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (rank == 0 && !wrong) puts("file ok");
    MPI_Finalize();
    return wrong != 0;
}
