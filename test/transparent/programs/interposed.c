/* A program with functions of its own by libc's names, which do not work before main, and MPI's attribute callbacks that run in MPI_Finalize. */
#define _GNU_SOURCE
#include <mpi.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static int in_main, early, late;
static void counted(void) { in_main ? late++ : early++; }
pid_t getpid(void) { counted(); return (pid_t)syscall(SYS_getpid); }
int mprotect(void *at, size_t n, int how) { counted(); return (int)syscall(SYS_mprotect, at, n, how); }
int madvise(void *at, size_t n, int how) { counted(); return (int)syscall(SYS_madvise, at, n, how); }
char *secure_getenv(const char *name) { return getenv(name); }

static int deleted(MPI_Comm comm, int key, void *value, void *extra) {
	int one = 1, sum = 0;
	(void)comm, (void)key, (void)extra;
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
	*(int *)value += sum;
	return MPI_SUCCESS;
}
int main(int argc, char **argv) {
	static int calls;
	int key, rank, before = early;
	in_main = 1;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, deleted, &key, NULL);
	MPI_Comm_set_attr(MPI_COMM_SELF, key, &calls);
	late = 0;
	for (int i = 0; i < 100; i++)
		MPI_Barrier(MPI_COMM_SELF);
	int after = late;
	MPI_Finalize();
	if (rank == 0)
		printf("calls before main %d, of barriers %d, callback %d\n", before, after > 0, calls);
	return 0;
}
