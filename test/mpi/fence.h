/* The program's at_fence is called by each rank that is about to enter a fence of PMI or PMIx. Programs are built with
 * -rdynamic, so that the MPI library calls write, PMIx_Fence and PMIx_Fence_nb of the program. */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void at_fence(void);

static int rank_of_environment(void) {
    const char *r = getenv("MPIUP_RANK");
    return r ? atoi(r) : -1;
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
