/* accept_ompi: the lower half of the ranks opens a port, publishes it and accepts, the upper half
 * looks it up and connects; then a sum over the intercommunicator. "accept ok" from rank 0. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    const char *service = "mpiup-test-\351ccept";
    char port[MPI_MAX_PORT_NAME] = "";
    int rank, size, mine, theirs = 0, want = 0;
    MPI_Comm half, other, both;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int lower = rank < size / 2;
    MPI_Comm_split(MPI_COMM_WORLD, lower, rank, &half);
    int first = lower ? rank == 0 : rank == size / 2;
    if (lower && first) {
        MPI_Open_port(MPI_INFO_NULL, port);
        MPI_Publish_name(service, MPI_INFO_NULL, port);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    if (!lower && first) MPI_Lookup_name(service, MPI_INFO_NULL, port);
    if (lower) MPI_Comm_accept(port, MPI_INFO_NULL, 0, half, &other);
    else MPI_Comm_connect(port, MPI_INFO_NULL, 0, half, &other);
    MPI_Intercomm_merge(other, !lower, &both);
    mine = rank + 1;
    MPI_Allreduce(&mine, &theirs, 1, MPI_INT, MPI_SUM, both);
    for (int r = 0; r < size; r++) want += r + 1;
    MPI_Comm_free(&both);
    MPI_Comm_disconnect(&other);
    if (lower && first) {
        MPI_Unpublish_name(service, MPI_INFO_NULL, port);
        MPI_Close_port(port);
    }
    if (rank == 0 && theirs == want) puts("accept ok");
    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
