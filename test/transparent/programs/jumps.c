/* MPI is left by longjmp from an error handler, and by a signal's handler; calls after it work, from deeper and higher frames. */
#include <mpi.h>
#include <setjmp.h>
#include <stdio.h>
#include <signal.h>
#include <unistd.h>

static jmp_buf back;
static int handled;
static void failed(MPI_Comm *comm, int *code, ...) {
	(void)comm, (void)code;
	handled++;
	longjmp(back, 1);
}
static void ticked(int s) { (void)s; }
static int deeper(int n) {
	volatile char room[256];
	room[0] = 0;
	int one = 1, sum = 0;
	if (n > 0)
		return deeper(n - 1) + room[0];
	MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	return sum;
}
int main(int argc, char **argv) {
	int rank, size;
	MPI_Errhandler handler;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	MPI_Comm_create_errhandler(failed, &handler);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
	for (volatile int i = 0; i < 3; i++)
		if (setjmp(back) == 0) {
			int x = 0;
			MPI_Send(&x, 1, MPI_INT, size + 3, 0, MPI_COMM_WORLD);
		}
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL);
	signal(SIGALRM, ticked);
	ualarm(1000, 1000);
	int sum = 0;
	for (int i = 0; i < 200; i++)
		sum += deeper(i % 20);
	ualarm(0, 0);
	if (rank == 0)
		printf("handled %d, sum %d\n", handled, sum / size);
	return MPI_Finalize();
}
