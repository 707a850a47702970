/* A plugin's constructor waits for a thread whose MPI_Allreduce is the first of the process. With -DPLUGIN the plugin, which the program opens beside itself. */
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <time.h>
#include <errno.h>
#ifdef PLUGIN
extern sem_t wanted, done;
extern int in_time;
__attribute__((constructor)) static void start(void) {
	struct timespec until;
	sem_post(&wanted);
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 10;
	in_time = sem_timedwait(&done, &until) == 0;
}
#else
#include <dlfcn.h>
#include <mpi.h>
sem_t wanted, done;
int in_time;
static void *reduce(void *unused) {
	int one = 1, sum = 0;
	sem_wait(&wanted);
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Barrier(MPI_COMM_WORLD);
	sem_post(&done);
	return unused;
}
int main(int argc, char **argv) {
	int level, rank;
	char path[4096];
	pthread_t t;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	sem_init(&wanted, 0, 0);
	sem_init(&done, 0, 0);
	pthread_create(&t, NULL, reduce, NULL);
	snprintf(path, sizeof path, "%s.plugin.so", argv[0]);
	void *plugin = dlopen(path, RTLD_NOW);
	pthread_join(t, NULL);
	if (rank == 0)
		printf("plugin %s, the call in it ended in time: %d\n", plugin ? "opened" : dlerror(), in_time);
	return MPI_Finalize();
}
#endif
