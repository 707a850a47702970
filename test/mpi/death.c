/* death PHASE: rank 1 ends in the middle of MPI's beginning, where no MPI call can be put:
 *   wired   it has told the PMI or PMIx server who it is and is about to enter the first fence (exit code 5)
 *   fenced  it waits in that fence for rank 0, which is late (SIGALRM)
 *   ended   all ranks are past MPI_Finalize; rank 0 lingers while it fails (exit code 5)
 * It says so when it is there, and exits with 7 when MPI_Init went by without a fence.
 * Built with -rdynamic, so that the MPI library calls write, PMIx_Fence and PMIx_Fence_nb of this program. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "finalize.h"

static int wired, fenced, late; /* this rank is to end before its first fence, or in it, or to come late to it */

static int rank_of_environment(void) {
    const char *r = getenv("MPIUP_RANK");
    return r ? atoi(r) : -1;
}

/* at_fence is called by each rank that is about to enter a fence. */
static void at_fence(void) {
    if (wired) fputs("death before its first fence\n", stderr), _exit(5);
    if (fenced) fputs("death in its first fence\n", stderr), alarm(1);
    if (late) sleep(60); /* ended long before by mpiup */
    fenced = late = 0;
}

/* A PMI-1 client's fence is the line "cmd=barrier_in", a PMI-2 client's "cmd=kvs-fence". */
ssize_t write(int fd, const void *buf, size_t n) {
    static ssize_t (*next)(int, const void *, size_t);
    if (memmem(buf, n, "cmd=barrier_in", 14) || memmem(buf, n, "cmd=kvs-fence", 13)) at_fence();
    if (!next) next = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    return next(fd, buf, n);
}

int PMIx_Fence(const void *procs, size_t n, const void *info, size_t ninfo) {
    static int (*next)(const void *, size_t, const void *, size_t);
    at_fence();
    if (!next) next = (int (*)(const void *, size_t, const void *, size_t))dlsym(RTLD_NEXT, "PMIx_Fence");
    return next(procs, n, info, ninfo);
}

int PMIx_Fence_nb(const void *procs, size_t n, const void *info, size_t ninfo, void *done, void *arg) {
    static int (*next)(const void *, size_t, const void *, size_t, void *, void *);
    at_fence();
    if (!next)
        next = (int (*)(const void *, size_t, const void *, size_t, void *, void *))dlsym(RTLD_NEXT, "PMIx_Fence_nb");
    return next(procs, n, info, ninfo, done, arg);
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
