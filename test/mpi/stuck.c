/* stuck ODD HOW: rank ODD never comes to where the others wait for it. HOW is "init" (it sleeps before MPI_Init), "sleep"
   (after it, in a system call), "spin" (in a loop) or the path of a file that it opens and reads. The others say "rank R waits" and wait in MPI_Barrier. With "busy" no
   rank is stuck: all compute without a word, until they are ended; with "rest" all sleep. */
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

__attribute__((noinline)) static void odd_one_out(const char *how) {
    volatile unsigned long n = 0;
    while (strcmp(how, "spin") == 0 || strcmp(how, "busy") == 0) n++;
    int file = *how == '/' ? open(how, O_RDONLY) : -1;
    char byte;
    if (*how == '/' && read(file, &byte, 1) != 1) perror(how), exit(9);
    for (;;) sleep(1000);
}

int main(int argc, char **argv) {
    int rank, odd = argc > 1 ? atoi(argv[1]) : 0;
    const char *how = argc > 2 ? argv[2] : "sleep";
    const char *mine = getenv("MPIUP_RANK");
    if (strcmp(how, "init") == 0 && mine && atoi(mine) == odd) odd_one_out(how);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == odd || strcmp(how, "busy") == 0 || strcmp(how, "rest") == 0) {
        printf("rank %d is stuck\n", rank);
        fflush(stdout);
        odd_one_out(how);
    }
    printf("rank %d waits\n", rank);
    fflush(stdout);
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
