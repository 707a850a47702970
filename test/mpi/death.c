/* death PHASE: rank 1 ends in the middle of MPI's beginning, where no MPI call can be put:
 *   wired   it has told the PMI or PMIx server who it is and is about to enter the first fence (exit code 5)
 *   fenced  it waits in that fence for rank 0, which is late (SIGALRM)
 *   ended   all ranks are past MPI_Finalize; rank 0 lingers while it fails (exit code 5)
 * It says so when it is there, and exits with 7 when MPI_Init went by without a fence. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fence.h"
#include "finalize.h"

static int wired, fenced, late; /* this rank is to end before its first fence, or in it, or to come late to it */

static void at_fence(void) {
    if (wired) fputs("death before its first fence\n", stderr), _exit(5);
    if (fenced) fputs("death in its first fence\n", stderr), alarm(1);
    if (late) sleep(60); /* ended long before by mpiup */
    fenced = late = 0;
}

int main(int argc, char **argv) {
    const char *phase = argc > 1 ? argv[1] : "wired";
    int rank = rank_of_environment();
    wired = rank == 1 && !strcmp(phase, "wired");
    fenced = rank == 1 && !strcmp(phase, "fenced");
    late = rank == 0 && !strcmp(phase, "fenced");
    MPI_Init(&argc, &argv);
    if (wired || fenced) _exit(7);
    MPI_Finalize();
    if (strcmp(phase, "ended")) return 0;
    if (rank == 1) _exit(5);
    if (rank == 0) sleep(60);
    return 0;
}
