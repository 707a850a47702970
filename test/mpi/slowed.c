/* slowed STEPS KIND SECONDS SLOW FACTOR DIR: so many steps of work (step.c), each of which ends with an Allreduce over all ranks. Rank SLOW
   has FACTOR times as much to do, but for a kind that has a file or a server of its own. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

#include "finalize.h"

void step_begin(int rank, const char *kind, double seconds, const char *dir);
void step(double more);

int main(int argc, char **argv) {
	int rank, n;
	double x = 1, y;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n);
	if (argc != 7)
		MPI_Abort(MPI_COMM_WORLD, 2);
	step_begin(rank, argv[2], atof(argv[3]), argv[6]);
	MPI_Barrier(MPI_COMM_WORLD);
	printf("rank %d is there\n", rank);
	fflush(stdout);
	for (int i = 0; i < atoi(argv[1]); i++) {
		step(rank == atoi(argv[4]) ? atof(argv[5]) : 1);
		MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	}
	MPI_Finalize();
	return y == n ? 0 : 4;
}
