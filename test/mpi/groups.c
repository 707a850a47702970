/* groups: communicators of groups out of an MPI session, without MPI_COMM_WORLD (MPI 4.0; over PMI 1.2, MPICH
 * 5 needs those of the group only, before it all ranks). The even and the odd ranks have one each; then four
 * threads of each rank make one each of the first and the last rank, in any order. "groups ok" from rank 0. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { THREADS = 4 };
static MPI_Session session;
static MPI_Group world;
static int rank, size;

static void fail(const char *what, int n) {
    fprintf(stderr, "groups: rank %d: %s: %d\n", rank, what, n);
    exit(9);
}

/* meet makes a communicator of n ranks and counts them. */
static void meet(const int *ranks, int n, const char *tag) {
    MPI_Group group;
    MPI_Comm comm;
    int one = 1, sum = 0;
    MPI_Group_incl(world, n, ranks, &group);
    MPI_Comm_create_from_group(group, tag, MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &comm);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
    if (sum != n) fail(tag, sum);
    MPI_Comm_free(&comm);
    MPI_Group_free(&group);
}

static void *thread(void *arg) {
    char tag[16];
    int ends[] = {0, size - 1};
    snprintf(tag, sizeof tag, "thread %d", *(int *)arg);
    meet(ends, 2, tag);
    return NULL;
}

int main(int argc, char **argv) {
    MPI_Info info;
    int n = 0, parity[256];
    int threads = argc > 1 ? atoi(argv[1]) : THREADS;
    MPI_Info_create(&info);
    MPI_Info_set(info, "thread_level", "MPI_THREAD_MULTIPLE");
    MPI_Session_init(info, MPI_ERRORS_ARE_FATAL, &session);
    MPI_Info_free(&info);
    MPI_Group_from_session_pset(session, "mpi://WORLD", &world);
    MPI_Group_rank(world, &rank);
    MPI_Group_size(world, &size);
    for (int r = rank % 2; r < size && n < 256; r += 2) parity[n++] = r;
    meet(parity, n, rank % 2 ? "odd" : "even");
    if (size > 1 && (rank == 0 || rank == size - 1)) {
        pthread_t t[THREADS];
        int number[THREADS];
        for (int i = 0; i < threads && i < THREADS; i++) {
            number[i] = rank ? THREADS - 1 - i : i;
            if (pthread_create(&t[i], NULL, thread, &number[i])) fail("thread", i);
        }
        for (int i = 0; i < threads && i < THREADS; i++) pthread_join(t[i], NULL);
    }
    MPI_Group_free(&world);
    MPI_Session_finalize(&session);
    if (rank == 0) puts("groups ok");
    return 0;
}
