/* hello: each rank says who and where it is; rank 0 also how long it took from the command to
 * the first barrier, when $T0 holds the epoch nanoseconds of the command:
 *
 *   mpicc.mpich -O2 -rdynamic -o hello hello.c
 *   T0=$(date +%s%N) mpiup run -n 4 -x T0 ./hello
 */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static double since_t0(void) {
    struct timespec now;
    const char *t0 = getenv("T0");
    if (!t0) return -1;
    clock_gettime(CLOCK_REALTIME, &now);
    return (now.tv_sec * 1000000000LL + now.tv_nsec - atoll(t0)) / 1e6;
}

int main(int argc, char **argv) {
    int rank, size, local;
    char host[64] = "";
    double ms;
    MPI_Comm here;

    MPI_Init(&argc, &argv);
    MPI_Barrier(MPI_COMM_WORLD);
    ms = since_t0();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &here);
    MPI_Comm_rank(here, &local);
    gethostname(host, sizeof host - 1);
    printf("rank %d of %d on %s, local rank %d\n", rank, size, host, local);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0 && ms >= 0) printf("%.0f ms from the command to the first barrier\n", ms);
    MPI_Comm_free(&here);
    MPI_Finalize();
    return 0;
}

#ifdef MPICH_VERSION
/* Debian 12's MPICH 4.0.2 (ch4:ucx, UCX 1.13) sometimes waits for good in MPI_Finalize between
 * hosts, under any launcher: one rank disconnects its endpoints while the peer already waits in
 * the last PMI barrier. Nothing is in flight any more, so there is no need to disconnect; this
 * definition takes UCX's place in programs linked with -rdynamic. Other MPICHs never call it. */
void *ucp_disconnect_nb(void *ep) { (void)ep; return 0; }
#endif
