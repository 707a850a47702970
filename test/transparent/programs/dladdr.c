/* Where MPI's functions are, as programs find out to open MPI for all; and that all ways to a function lead to one address. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>
#include <string.h>

static int rank;
static void say(const char *name, void *here) {
	Dl_info at;
	const char *file = dladdr(here, &at) && at.dli_fname ? at.dli_fname : "nowhere";
	const char *base = strrchr(file, '/');
	void *all = dlsym(RTLD_DEFAULT, name), *opened = dlopen(file, RTLD_NOW | RTLD_GLOBAL | RTLD_NOLOAD);
	if (rank == 0)
		printf("%s is in %s, by dlsym the same: %d, there: %d\n", name, base ? base + 1 : file, all == here, opened && dlsym(opened, name) == here);
}

int main(int argc, char **argv) {
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	int one = 1, sum;
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	say("MPI_Allreduce", (void *)MPI_Allreduce);
	say("MPI_Barrier", (void *)MPI_Barrier);
	say("MPI_Init", (void *)MPI_Init);
	say("MPI_Wtime", (void *)MPI_Wtime);
	say("dlsym", (void *)dlsym);
	if (rank == 0)
		printf("next %d\n", dlsym(RTLD_NEXT, "MPI_Allreduce") == (void *)MPI_Allreduce);
	MPI_Barrier(MPI_COMM_WORLD);
	return MPI_Finalize();
}
