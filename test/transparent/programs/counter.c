/* A process that forbids itself the processor's counter: the next look at it is its death. Open MPI and MPICH may look themselves. */
#include <mpi.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>

static sigjmp_buf back;
static void crashed(int signal) { siglongjmp(back, signal); }
int main(int argc, char **argv) {
	int rank, one = 1, sum = 0, died = 0;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Barrier(MPI_COMM_WORLD);
	signal(SIGSEGV, crashed);
	prctl(PR_SET_TSC, PR_TSC_SIGSEGV, 0, 0, 0);
	if (sigsetjmp(back, 1) == 0)
		MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_SELF);
	else
		died = 1;
	prctl(PR_SET_TSC, PR_TSC_ENABLE, 0, 0, 0);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("died %d, sum %d\n", died, sum);
	return MPI_Finalize();
}
