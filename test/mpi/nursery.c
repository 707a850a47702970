/* nursery N PROGRAM KEY VALUE: spawns N processes of PROGRAM ("": itself) with that info (KEY "": none), of which
 * each prints "child R of N on HOST", and prints "nursery ok", or "spawn refused" when MPI says no. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "finalize.h"

int main(int argc, char **argv) {
    MPI_Comm parent, children;
    char host[256];
    int rank, size;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) {
        gethostname(host, sizeof host);
        printf("child %d of %d on %s\n", rank, size, host);
        MPI_Comm_disconnect(&parent);
        MPI_Finalize();
        return 0;
    }
    MPI_Info info;
    MPI_Info_create(&info);
    if (argc > 4 && argv[3][0]) MPI_Info_set(info, argv[3], argv[4]);
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    char *program = argc > 2 && argv[2][0] ? argv[2] : argv[0];
    int rc = MPI_Comm_spawn(program, MPI_ARGV_NULL, atoi(argv[1]), info, 0, MPI_COMM_WORLD, &children, MPI_ERRCODES_IGNORE);
    if (rc == MPI_SUCCESS) MPI_Comm_disconnect(&children);
    if (rank == 0) puts(rc == MPI_SUCCESS ? "nursery ok" : "spawn refused");
    MPI_Finalize();
    return 0;
}
