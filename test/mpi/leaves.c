/* leaves HOW [CODE]: a program that makes itself a daemon before MPI_Init, by two forks and a process session of its own;
 * with HOW "stays" it does not, for those that are left by others. All ranks meet, and after a second again; then each
 * writes "result of rank R of N", and ends with CODE. Rank 1 does otherwise: with HOW "kill" it kills itself in between,
 * with "exit" it ends with CODE without MPI_Finalize. With "late" the result comes a second after MPI_Finalize. With
 * "catch" each writes "rank R got SIGNAL" of TERM, INT and USR1, and goes on for a minute. */
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "finalize.h"

static int rank;

static void got(int signal) {
    char line[64];
    int n = snprintf(line, sizeof line, "rank %d got %s\n", rank, signal == SIGTERM ? "TERM" : signal == SIGINT ? "INT" : "USR1");
    if (write(1, line, n) != n)
        _exit(99);
}

int main(int argc, char **argv) {
    int size, code = argc > 2 ? atoi(argv[2]) : 0;
    const char *how = argc > 1 ? argv[1] : "";
    if (strcmp(how, "stays") != 0) {
        if (fork() != 0)
            _exit(0);
        setsid();
        if (fork() != 0)
            _exit(0);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (strcmp(how, "catch") == 0) {
        signal(SIGTERM, got);
        signal(SIGINT, got);
        signal(SIGUSR1, got);
    }
    MPI_Barrier(MPI_COMM_WORLD);
    printf("rank %d is there\n", rank);
    fflush(stdout);
    if (strcmp(how, "catch") == 0)
        for (int i = 0; i < 600; i++)
            usleep(100000);
    sleep(1);
    if (rank == 1 && strcmp(how, "kill") == 0)
        raise(SIGKILL);
    if (rank == 1 && strcmp(how, "exit") == 0)
        _exit(code);
    MPI_Barrier(MPI_COMM_WORLD);
    if (strcmp(how, "late") == 0) {
        MPI_Finalize();
        sleep(1);
    }
    printf("result of rank %d of %d\n", rank, size);
    fflush(stdout);
    if (strcmp(how, "late") != 0)
        MPI_Finalize();
    return code;
}
