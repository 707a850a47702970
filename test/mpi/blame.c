/* blame ODD HOW DIR [CODE]: ranks go on in all-reduces without end; after five of them rank ODD does HOW, and the others wait for it.
     exit                   _exit(CODE)             both            it ends with CODE, and within 10 ms the next rank with 5
     segv, abort            crashes, aborts         mpi_abort       MPI_Abort with 7
     mpi_error              sends to no rank        oom             takes memory without end
     sleep, spin            hangs, in a system call or in a loop
     stop                   stops itself (SIGSTOP)
     before, init           before MPI_Init: ends with CODE, hangs
   blame SECONDS HABIT DIR habit: a job that goes on, and ends with 0.
     recv, pipe, map        rank 2 reads slowly from a socket, a pipe, a mapped file; the others wait in a barrier
     compute, child         rank 2, or a child of it, computes; the others wait in a barrier
     sleep_all              all sleep
     checkpoint, msync      all, or rank 0 by a mapped file, save now and then */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "finalize.h"

static volatile unsigned long work;

static int is(const char *a, const char *b) { return strcmp(a, b) == 0; }

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

__attribute__((noinline)) static void apply_flux(volatile int *cell) { *cell = 1; }

__attribute__((noinline)) static void odd_one_out(const char *how, int code) {
    if (is(how, "exit") || is(how, "both")) _exit(code);
    if (is(how, "segv")) apply_flux(0);
    if (is(how, "abort")) abort();
    if (is(how, "mpi_abort")) MPI_Abort(MPI_COMM_WORLD, 7);
    if (is(how, "mpi_error")) MPI_Send(&code, 1, MPI_INT, 99, 0, MPI_COMM_WORLD);
    if (is(how, "stop")) raise(SIGSTOP);
    while (is(how, "oom")) {
        char *room = malloc(1 << 20);
        if (room) memset(room, 1, 1 << 20);
    }
    while (is(how, "spin")) work++;
    for (;;) sleep(1000);
}

static void compute(double seconds) {
    for (double until = now() + seconds; now() < until;)
        for (int i = 0; i < 1000000; i++) work++;
}

static int feeder(int connected) { /* the end of a socket or pipe that says 30,000 bytes a second */
    int ends[2];
    if (connected) {
        struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        socklen_t size = sizeof at;
        int s = socket(AF_INET, SOCK_STREAM, 0);
        if (bind(s, (struct sockaddr *)&at, size) || listen(s, 1) || getsockname(s, (struct sockaddr *)&at, &size)) exit(8);
        ends[1] = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(ends[1], (struct sockaddr *)&at, size) || (ends[0] = accept(s, 0, 0)) < 0) exit(8);
    } else if (pipe(ends)) exit(8);
    if (fork() == 0) { /* a server of data, which is not this program's */
        setsid();
        close(ends[0]);
        char some[3000] = "";
        signal(SIGPIPE, SIG_DFL);
        while (write(ends[1], some, sizeof some) > 0) usleep(100000);
        _exit(0);
    }
    close(ends[1]);
    return ends[0];
}

static void through(const char *dir, double seconds) { /* a mapped file, a page at a time */
    char path[4096];
    snprintf(path, sizeof path, "%s/mapped", dir);
    int f = open(path, O_RDWR | O_CREAT, 0666);
    size_t size = 64 << 20;
    if (f < 0 || posix_fallocate(f, 0, size)) exit(8);
    volatile char *at = mmap(0, size, PROT_READ, MAP_SHARED, f, 0);
    double until = now() + seconds;
    for (size_t i = 0; now() < until; i = (i + 4096) % size) {
        work += at[i];
        if (i % (1 << 20) == 0) madvise((void *)at, size, MADV_DONTNEED), posix_fadvise(f, 0, size, POSIX_FADV_DONTNEED);
        usleep(5000);
    }
}

static void save(const char *dir, int rank, int mapped) {
    char path[4096];
    static char state[1 << 20];
    snprintf(path, sizeof path, "%s/checkpoint.%d", dir, rank);
    int f = open(path, O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (f < 0 || ftruncate(f, sizeof state)) exit(8);
    if (mapped) {
        char *at = mmap(0, sizeof state, PROT_READ | PROT_WRITE, MAP_SHARED, f, 0);
        memset(at, 7, sizeof state);
        msync(at, sizeof state, MS_SYNC);
        munmap(at, sizeof state);
    } else if (write(f, state, sizeof state) < 0) exit(8);
    fsync(f);
    close(f);
}

static void habit(int rank, double seconds, const char *how, const char *dir) {
    char some[512];
    double until = now() + seconds;
    if (is(how, "sleep_all")) usleep(seconds * 1e6);
    if (rank == 2 && (is(how, "recv") || is(how, "pipe"))) {
        int s = feeder(is(how, "recv"));
        while (now() < until)
            if ((is(how, "recv") ? recv(s, some, sizeof some, 0) : read(s, some, sizeof some)) <= 0) exit(8);
        close(s);
    }
    if (rank == 2 && is(how, "map")) through(dir, seconds);
    if (rank == 2 && is(how, "compute")) compute(seconds);
    if (rank == 2 && is(how, "child")) {
        pid_t p = fork();
        if (p == 0) compute(seconds), _exit(0);
        waitpid(p, 0, 0);
    }
    while ((is(how, "checkpoint") || (rank == 0 && is(how, "msync"))) && now() < until) {
        save(dir, rank, is(how, "msync"));
        usleep(900000);
    }
}

int main(int argc, char **argv) {
    int rank, size, step, one = 1, sum;
    if (argc < 4) return 2;
    int odd = atoi(argv[1]), code = argc > 4 ? atoi(argv[4]) : 0;
    const char *how = argv[2], *dir = argv[3], *mine = getenv("MPIUP_RANK");
    int habits = argc > 4 && is(argv[4], "habit");
    if (mine && atoi(mine) == odd && !habits) {
        if (is(how, "before")) return code;
        if (is(how, "init")) odd_one_out(how, code);
    }
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    for (step = 0; step < 5; step++) MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    if (habits) {
        habit(rank, atof(argv[1]), how, dir);
        MPI_Barrier(MPI_COMM_WORLD);
        MPI_Finalize();
        return 0;
    }
    printf("rank %d is there\n", rank);
    fflush(stdout);
    if (is(how, "both")) MPI_Barrier(MPI_COMM_WORLD);
    if (is(how, "both") && rank == (odd + 1) % size) usleep(3000), _exit(5);
    if (rank == odd) odd_one_out(how, code);
    for (;;) MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
}
