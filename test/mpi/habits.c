/* habits HOW SECONDS [FILE]: what ranks do for so long that go on, though they look as if they hung. "recv" receives 30 MB/s by recv(2), "map"
   reads a mapped file, in "one" rank 1 computes and the others sleep in a socket, in "rest" rank 1 sleeps and the others compute, in
   "sleep" all sleep. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static double seconds;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec * 1e-9;
}

__attribute__((noinline)) static void compute(void) {
    volatile unsigned long n = 0;
    for (double end = now() + seconds; now() < end;)
        for (int i = 0; i < 100000; i++) n++;
}

static void receive(void) {
    static char bytes[1 << 18];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof at;
    int l = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(l, (void *)&at, size) || listen(l, 1) || getsockname(l, (void *)&at, &size)) perror("socket"), exit(9);
    if (fork() == 0) {
        int out = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(out, (void *)&at, size)) perror("connect"), _exit(9);
        for (double end = now() + seconds; now() < end && send(out, bytes, 150000, 0) > 0;) usleep(5000);
        _exit(0);
    }
    int in = accept(l, 0, 0);
    while (recv(in, bytes, sizeof bytes, 0) > 0) usleep(4000);
}

static void map(const char *name) {
    struct stat st;
    int f = open(name, O_RDONLY);
    if (f < 0 || fstat(f, &st)) perror(name), exit(9);
    volatile unsigned long sum = 0;
    for (double end = now() + seconds; now() < end; usleep(300000)) {
        const char *p = mmap(0, st.st_size, PROT_READ, MAP_PRIVATE, f, 0);
        for (off_t o = 0; o < st.st_size; o += 4096) sum += p[o];
        munmap((void *)p, st.st_size);
    }
}

static void wait_in_a_socket(void) {
    int pair[2];
    char byte;
    struct timeval bound = {(long)seconds, 0};
    socketpair(AF_UNIX, SOCK_STREAM, 0, pair);
    setsockopt(pair[0], SOL_SOCKET, SO_RCVTIMEO, &bound, sizeof bound);
    if (recv(pair[0], &byte, 1, 0) >= 0) exit(9);
}

int main(int argc, char **argv) {
    int rank;
    if (argc < 3) return 2;
    seconds = atof(argv[2]);
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (strcmp(argv[1], "recv") == 0) receive();
    if (strcmp(argv[1], "map") == 0) map(argv[3]);
    if (strcmp(argv[1], "one") == 0) rank == 1 ? compute() : wait_in_a_socket();
    if (strcmp(argv[1], "rest") == 0) rank == 1 ? (void)sleep(seconds) : compute();
    if (strcmp(argv[1], "sleep") == 0) sleep(seconds);
    MPI_Finalize();
    if (rank == 0) puts("went on");
    return 0;
}
