/* Threads with the smallest stacks call MPI at once, each over its own communicator, under MPI_THREAD_MULTIPLE. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
enum { THREADS = 4, TIMES = 40 };
static MPI_Comm comms[THREADS];
static long sums[THREADS];
static void *work(void *arg) {
	long me = (long)arg;
	for (int i = 0; i < TIMES; i++) {
		int one = 1, sum = 0;
		MPI_Request r;
		MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comms[me]);
		sums[me] += sum;
		MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comms[me], &r);
		MPI_Wait(&r, MPI_STATUS_IGNORE);
		sums[me] += sum;
	}
	return NULL;
}
int main(int argc, char **argv) {
	int level, rank;
	pthread_t t[THREADS];
	pthread_attr_t small;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	pthread_attr_init(&small);
	pthread_attr_setstacksize(&small, 256 << 10);
	for (long i = 0; i < THREADS; i++)
		MPI_Comm_dup(MPI_COMM_WORLD, &comms[i]);
	for (long i = 0; i < THREADS; i++)
		if (level == MPI_THREAD_MULTIPLE)
			pthread_create(&t[i], &small, work, (void *)i);
		else
			work((void *)i);
	for (long i = 0; i < THREADS; i++) {
		if (level == MPI_THREAD_MULTIPLE)
			pthread_join(t[i], NULL);
		MPI_Comm_free(&comms[i]);
	}
	if (rank == 0)
		printf("level %d sums %ld %ld %ld %ld\n", level, sums[0], sums[1], sums[2], sums[3]);
	return MPI_Finalize();
}
