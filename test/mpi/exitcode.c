/* exitcode CODE [RANK [HOW]]: RANK (default: the last) ends with CODE, all others with 0. HOW is
 *   after    (default) MPI_Finalize first, in all ranks
 *   without  no MPI_Finalize in RANK; the others wait in a second barrier (without a first one
 *            some may still connect to RANK, and MPI aborts them)
 *   before   no MPI_Init in RANK; the others wait in it
 *   signal   as "without", killed by signal CODE
 *   twice    as "after", and then a second MPI_Finalize in RANK, which MPI answers by aborting */
#include <mpi.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "finalize.h"

int main(int argc, char **argv) {
    int rank, size;
    int code = argc > 1 ? atoi(argv[1]) : 3;
    const char *how = argc > 3 ? argv[3] : "after";
    if (!strcmp(how, "before")) {
        const char *r = getenv("MPIUP_RANK");
        if (!r) r = getenv("PMI_RANK");
        if (r && atoi(r) == atoi(argv[2])) return code;
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    int mine = rank == (argc > 2 ? atoi(argv[2]) : size - 1);
    if (!strcmp(how, "without") || !strcmp(how, "signal")) MPI_Barrier(MPI_COMM_WORLD);
    if (mine && !strcmp(how, "without")) _exit(code);
    if (mine && !strcmp(how, "signal")) {
        signal(code, SIG_DFL);
        raise(code);
        pause();
    }
    if (!strcmp(how, "without") || !strcmp(how, "signal")) MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    if (mine && !strcmp(how, "twice")) MPI_Finalize();
    return mine ? code : 0;
}
