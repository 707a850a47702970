/* With -DLIBRARY what a program sees of NCCL, which only sleeps; else the program: STEPS steps of three calls, each so many ms long, and from the
   half on as many ms as the last argument says. A child that it forks calls too, and what only the library before NCCL has is called. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream);
int ncclReduce(const void *from, void *to, size_t count, int type, int op, int root, void *comm, void *stream);

#ifdef LIBRARY
static int right(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream) {
	struct timespec t = {0, 1000000};
	nanosleep(&t, &t);
	return from == (void *)1 && to == (void *)2 && count == 1ul << 40 && type == 4 && op == 5 && comm == (void *)6 && stream == (void *)7;
}
int ncclAllReduce(const void *from, void *to, size_t count, int type, int op, void *comm, void *stream) {
	return !right(from, to, count, type, op, comm, stream);
}
int ncclReduce(const void *from, void *to, size_t count, int type, int op, int root, void *comm, void *stream) {
	return !right(from, to, count, type, op, comm, stream) || root != 8;
}
#else
static int calls(void) {
	return ncclAllReduce((void *)1, (void *)2, 1ul << 40, 4, 5, (void *)6, (void *)7) ||
	       ncclReduce((void *)1, (void *)2, 1ul << 40, 4, 5, 8, (void *)6, (void *)7) ||
	       ncclAllReduce((void *)1, (void *)2, 1ul << 40, 4, 5, (void *)6, (void *)7);
}

int main(int argc, char **argv) {
	int failed = 0, steps = atoi(argv[argc - 3]), forked = 0;
	for (int i = 0; i < steps; i++) {
		failed |= calls();
		if (!forked++ && !fork())
			_exit(calls());
		struct timespec t = {0, atoi(argv[i < steps / 2 ? argc - 2 : argc - 1]) * 1000000l};
		nanosleep(&t, &t);
	}
	int status = 1;
	wait(&status);
	int (*gather)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "ncclGather");
	return failed || status || (gather && gather() != 3);
}
#endif
