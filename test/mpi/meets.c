/* Says when its rank has passed the job's first barrier, and then works until somebody ends it:
 * "met RANK NANOSECONDS", the clock's. test/bench/restarts.go reads it. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

int main(int argc, char **argv) {
    int rank, sum;
    struct timespec now;

    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Barrier(MPI_COMM_WORLD);
    clock_gettime(CLOCK_REALTIME, &now);
    printf("met %d %lld%09ld\n", rank, (long long)now.tv_sec, now.tv_nsec);
    fflush(stdout);
    for (;;) {
        MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
        usleep(20000);
    }
}
