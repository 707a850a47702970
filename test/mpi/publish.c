/* publish: rank 0 publishes a literal string (Debian's MPICH 4.0.2 has no MPI_Open_port) by a name, both with a
 * byte that is no UTF-8; every rank looks it up, and rank 0 takes it back; "publish ok" from rank 0, or which step
 * went wrong. */
#include <mpi.h>
#include <stdio.h>
#include <string.h>

#include "finalize.h"

static int fail(int rank, const char *what) {
    fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 9);
    return 1;
}

int main(int argc, char **argv) {
    const char *service = "mpiup-test-s\351rvice", *literal = "tag#0$description#lit\351ral$port#4711$";
    char port[MPI_MAX_PORT_NAME];
    int rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);

    if (MPI_Lookup_name(service, MPI_INFO_NULL, port) == MPI_SUCCESS) return fail(rank, "found before it was published");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && MPI_Publish_name(service, MPI_INFO_NULL, literal) != MPI_SUCCESS) return fail(rank, "publish");
    MPI_Barrier(MPI_COMM_WORLD);
    memset(port, 0, sizeof port);
    if (MPI_Lookup_name(service, MPI_INFO_NULL, port) != MPI_SUCCESS) return fail(rank, "lookup");
    if (strcmp(port, literal)) return fail(rank, port);
    if (rank == 0 && MPI_Publish_name(service, MPI_INFO_NULL, literal) == MPI_SUCCESS) return fail(rank, "published twice");
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && MPI_Unpublish_name(service, MPI_INFO_NULL, literal) != MPI_SUCCESS) return fail(rank, "unpublish");
    MPI_Barrier(MPI_COMM_WORLD);
    if (MPI_Lookup_name(service, MPI_INFO_NULL, port) == MPI_SUCCESS) return fail(rank, "found after it was taken back");
    if (rank == 0) puts("publish ok");
    MPI_Finalize();
    return 0;
}
