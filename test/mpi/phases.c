/* phases PHASE DIR: a job that stands still in a phase until DIR/go exists. A rank that has come there makes DIR/at.RANK.
 *   init      every rank, before its first fence
 *   fence     the last rank, before its first fence; the others are in it
 *   run       every rank adds up numbers with the others and writes lines, 16 KiB after each sum
 *   finalize  the last rank, before MPI_Finalize; the others are in it
 *   free      none
 * Ranks that were started again stand still as the first ones, and make DIR/at.RANK.COUNT.
 * Lines are "RANK N TEXT", N counting from 0, at last "RANK end". SIGUSR2 ends a rank with exit code 0, SIGUSR1 has it
 * take all memory that it gets. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>

#include "fence.h"
#include "finalize.h"

static const char *phase, *dir;
static int rank, held; /* the last rank */

static int is(const char *p) { return !strcmp(phase, p); }

/* arrive says that this rank is there. */
static void arrive(void) {
    char path[500];
    const char *again = getenv("MPIUP_RESTART_COUNT");
    int first = !again || !strcmp(again, "0");
    snprintf(path, sizeof path, "%s/at.%d%s%s", dir, rank, first ? "" : ".", first ? "" : again);
    close(open(path, O_CREAT | O_WRONLY, 0666));
}

static int released(void) {
    char path[500];
    snprintf(path, sizeof path, "%s/go", dir);
    return !access(path, F_OK);
}

static void stand(void) {
    while (!released()) usleep(5000);
}

static void at_fence(void) {
    static int fences;
    if (!phase || fences++ || (!is("init") && !is("fence"))) return;
    arrive();
    if (held || is("init")) stand();
}

static void leave(int sig) { (void)sig, _exit(0); }

static void grab(int sig) {
    (void)sig;
    for (;;) {
        size_t size = 16 << 20;
        char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) pause();
        memset(p, 1, size);
    }
}

/* run writes lines until rank 0 is released. */
static void run(void) {
    static char text[16384];
    for (int n = 0, over = 0; !over;) {
        int mine = rank == 0 && released(), used = 0;
        MPI_Allreduce(&mine, &over, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        while (used < (int)sizeof text - 300) used += snprintf(text + used, 300, "%d %d %0200d\n", rank, n++, 0);
        fwrite(text, 1, used, stdout);
        fflush(stdout);
        if (n < 200) arrive();
        usleep(10000);
    }
}

int main(int argc, char **argv) {
    if (argc < 3) return 2;
    rank = rank_of_environment();
    held = getenv("MPIUP_SIZE") && rank == atoi(getenv("MPIUP_SIZE")) - 1;
    dir = argv[2], phase = argv[1];
    signal(SIGUSR2, leave);
    signal(SIGUSR1, grab);
    MPI_Init(&argc, &argv);
    if (is("run")) run();
    if (is("finalize")) {
        MPI_Barrier(MPI_COMM_WORLD);
        arrive();
        if (held) stand();
    }
    printf("%d end\n", rank);
    fflush(stdout);
    MPI_Finalize();
    return 0;
}
