/* locality: how many ranks of its host share each kind of object with a rank, as Open MPI knows from its
 * launcher: "rank 0: numa 2 socket 2 l3 2 core 1 hwthread 1", one line a rank. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
    static const struct { int type; const char *name; } kinds[] = {
        {OMPI_COMM_TYPE_NUMA, "numa"}, {OMPI_COMM_TYPE_SOCKET, "socket"}, {OMPI_COMM_TYPE_L3CACHE, "l3"},
        {OMPI_COMM_TYPE_CORE, "core"}, {OMPI_COMM_TYPE_HWTHREAD, "hwthread"}};
    char line[200];
    int rank, n = 0, size;
    MPI_Comm part;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    n = snprintf(line, sizeof line, "rank %d:", rank);
    for (unsigned i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        MPI_Comm_split_type(MPI_COMM_WORLD, kinds[i].type, 0, MPI_INFO_NULL, &part);
        MPI_Comm_size(part, &size);
        MPI_Comm_free(&part);
        n += snprintf(line + n, sizeof line - n, " %s %d", kinds[i].name, size);
    }
    printf("%s\n", line);
    MPI_Finalize();
    return 0;
}
