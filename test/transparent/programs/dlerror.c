/* An error of dlopen is read after the ranks have agreed on it: the first MPI_Allreduce of the process stands between. */
#include <dlfcn.h>
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
	MPI_Init(&argc, &argv);
	int ok = dlopen("/nonexistent/plugin.so", RTLD_NOW) != NULL, all;
	MPI_Allreduce(&ok, &all, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
	const char *why = dlerror();
	int rank;
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("loaded %d: %s\n", all, why ? why : "the error is gone");
	return MPI_Finalize();
}
