/* death PHASE: rank 1 ends in the middle of MPI's beginning, where no MPI call can be put:
 *   wired   it has told the PMI or PMIx server who it is and is about to enter the first fence (exit code 5)
 *   fenced  it waits in that fence for rank 0, which is late (SIGALRM)
 *   ended   all ranks are past MPI_Finalize; rank 0 lingers while it fails (exit code 5)
 * Built with -rdynamic, so that the MPI library calls write, PMIx_Fence and PMIx_Fence_nb of this program. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "finalize.h"

static int wired; /* this rank is to end at its first fence */

static int rank_of_environment(void) {
    const char *r = getenv("MPIUP_RANK");
    return r ? atoi(r) : -1;
}

/* A PMI-1 client's fence is the line "cmd=barrier_in", a PMI-2 client's "cmd=kvs-fence". */
ssize_t write(int fd, const void *buf, size_t n) {
    static ssize_t (*next)(int, const void *, size_t);
    if (wired && (memmem(buf, n, "cmd=barrier_in", 14) || memmem(buf, n, "cmd=kvs-fence", 13))) _exit(5);
    if (!next) next = (ssize_t (*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    return next(fd, buf, n);
}

int PMIx_Fence(const void *procs, size_t n, const void *info, size_t ninfo) {
    static int (*next)(const void *, size_t, const void *, size_t);
    if (wired) _exit(5);
    if (!next) next = (int (*)(const void *, size_t, const void *, size_t))dlsym(RTLD_NEXT, "PMIx_Fence");
    return next(procs, n, info, ninfo);
}

int PMIx_Fence_nb(const void *procs, size_t n, const void *info, size_t ninfo, void *done, void *arg) {
    static int (*next)(const void *, size_t, const void *, size_t, void *, void *);
    if (wired) _exit(5);
    if (!next)
        next = (int (*)(const void *, size_t, const void *, size_t, void *, void *))dlsym(RTLD_NEXT, "PMIx_Fence_nb");
    return next(procs, n, info, ninfo, done, arg);
}

int main(int argc, char **argv) {
    const char *phase = argc > 1 ? argv[1] : "wired";
    int rank = rank_of_environment();
    if (!strcmp(phase, "wired")) wired = rank == 1;
    if (!strcmp(phase, "fenced") && rank == 0) sleep(60); /* ended long before by mpiup */
    if (!strcmp(phase, "fenced") && rank == 1) alarm(2);
    MPI_Init(&argc, &argv);
    if (wired) _exit(5); /* a library that needs no fence, with all ranks on one host */
    MPI_Finalize();
    if (strcmp(phase, "ended")) return 0;
    if (rank == 1) _exit(5);
    if (rank == 0) sleep(60);
    return 0;
}
