/* spawn: asks for two more processes; prints "spawn refused" when MPI says no with an error class,
 * and goes on to a barrier, which shows that PMI is still in step. */
#include <mpi.h>
#include <stdio.h>

#include "finalize.h"

int main(int argc, char **argv) {
    MPI_Comm children;
    char *args[] = {"--two words", "a=b", NULL};
    int errcodes[2], rank;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    int rc = MPI_Comm_spawn("/bin/true", args, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, errcodes);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && rc != MPI_SUCCESS) puts("spawn refused");
    MPI_Finalize();
    return rc == MPI_SUCCESS;
}
