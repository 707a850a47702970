/* again HOW RANK TIMES: all ranks meet, write "RANK of SIZE, start N: HOST" where N is how often they were started again, and
 * meet again. In the first TIMES starts RANK ends by HOW instead: signal, exit or abort; wait: nobody ends, and all wait. With
 * HOW time each rank writes when, in seconds since 1970, it has left the first barrier, and RANK when it kills itself. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "finalize.h"

static void tell(const char *what, int start) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    printf("start %d %s %ld.%09ld\n", start, what, (long)now.tv_sec, now.tv_nsec);
    fflush(stdout);
}

int main(int argc, char **argv) {
    const char *count = getenv("MPIUP_RESTART_COUNT");
    int rank, size, n = count ? atoi(count) : -1;
    char host[256] = "";
    if (argc != 4)
        return 2;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    gethostname(host, sizeof host - 1);
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(argv[1], "time") == 0)
        tell("barrier", n);
    else
        printf("%d of %d, start %d: %s\n", rank, size, n, host);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    if (n < atoi(argv[3])) {
        usleep(100000); /* for what all have written */
        if (rank == atoi(argv[2])) {
            if (strcmp(argv[1], "time") == 0) {
                tell("death", n);
                usleep(20000); /* until that is read */
                tell("death", n);
            }
            if (strcmp(argv[1], "signal") == 0 || strcmp(argv[1], "time") == 0)
                raise(SIGKILL);
            if (strcmp(argv[1], "exit") == 0)
                exit(3);
            if (strcmp(argv[1], "abort") == 0)
                MPI_Abort(MPI_COMM_WORLD, 5);
        }
        sleep(600);
    }
    MPI_Finalize();
    return 0;
}
