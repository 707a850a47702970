/* Wrong arguments under MPI_ERRORS_RETURN: what MPI says to each, or that it crashes. Collectives are under way, so that requests are looked at. */
#include <mpi.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>

static sigjmp_buf back;
static void crashed(int signal) { siglongjmp(back, signal); }

static int rank;
static void say(const char *what, int code) {
	int class = -1;
	if (code == -1)
		class = -2;
	else
		MPI_Error_class(code, &class);
	if (rank == 0)
		printf("%-70s %d\n", what, class);
}
#define TRY(call)                                               \
	do {                                                    \
		volatile int code = -1;                         \
		if (sigsetjmp(back, 1) == 0)                    \
			code = call;                            \
		say(#call, code);                               \
	} while (0)

int main(int argc, char **argv) {
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, MPI_ERRORS_RETURN);
	struct sigaction a = {.sa_handler = crashed};
	sigaction(SIGSEGV, &a, NULL);
	sigaction(SIGBUS, &a, NULL);
	int one = 1, sum, flag, index, count, many[64], n;
	MPI_Comm_size(MPI_COMM_WORLD, &n);
	MPI_Request under_way, requests[2] = {MPI_REQUEST_NULL, MPI_REQUEST_NULL}, *none = NULL, *wild = (MPI_Request *)8;
	MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &under_way);
	requests[0] = under_way;

	TRY(MPI_Wait(none, MPI_STATUS_IGNORE));
	TRY(MPI_Waitall(2, none, MPI_STATUSES_IGNORE));
	TRY(MPI_Waitall(-1, requests, MPI_STATUSES_IGNORE));
	TRY(MPI_Waitall(-1, wild, MPI_STATUSES_IGNORE));
	TRY(MPI_Waitany(2, none, &index, MPI_STATUS_IGNORE));
	TRY(MPI_Waitany(2, wild, NULL, MPI_STATUS_IGNORE));
	TRY(MPI_Waitany(-1, wild, &index, MPI_STATUS_IGNORE));
	TRY(MPI_Waitsome(2, none, &count, many, MPI_STATUSES_IGNORE));
	TRY(MPI_Waitsome(-1, wild, &count, many, MPI_STATUSES_IGNORE));
	TRY(MPI_Test(none, &flag, MPI_STATUS_IGNORE));
	TRY(MPI_Test(none, NULL, MPI_STATUS_IGNORE));
	TRY(MPI_Testall(2, none, &flag, MPI_STATUSES_IGNORE));
	TRY(MPI_Testall(2, none, NULL, MPI_STATUSES_IGNORE));
	TRY(MPI_Testall(-1, wild, &flag, MPI_STATUSES_IGNORE));
	TRY(MPI_Testany(2, none, &index, &flag, MPI_STATUS_IGNORE));
	TRY(MPI_Testany(2, none, NULL, NULL, MPI_STATUS_IGNORE));
	TRY(MPI_Testany(-1, wild, &index, &flag, MPI_STATUS_IGNORE));
	TRY(MPI_Testsome(2, none, &count, many, MPI_STATUSES_IGNORE));
	TRY(MPI_Testsome(2, none, NULL, NULL, MPI_STATUSES_IGNORE));
	TRY(MPI_Testsome(-1, wild, &count, many, MPI_STATUSES_IGNORE));
	TRY(MPI_Request_free(none));
	TRY(MPI_Start(none));
	TRY(MPI_Startall(2, none));
	TRY(MPI_Startall(-1, wild));
	TRY(MPI_Iallreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, NULL));
	TRY(MPI_Ibarrier(MPI_COMM_NULL, &requests[1]));
	TRY(MPI_Ibarrier(MPI_COMM_WORLD, NULL));
	TRY(MPI_Iallgatherv(&one, 1, MPI_INT, many, NULL, NULL, MPI_INT, MPI_COMM_NULL, &requests[1]));
	TRY(MPI_Barrier(MPI_COMM_NULL));
	TRY(MPI_Allreduce(&one, &sum, 1, MPI_DATATYPE_NULL, MPI_SUM, MPI_COMM_WORLD));
	TRY(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_OP_NULL, MPI_COMM_WORLD));
	TRY(MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_NULL));
	TRY(MPI_Allgatherv(&one, 1, MPI_INT, many, NULL, NULL, MPI_INT, MPI_COMM_NULL));
	TRY(MPI_Allgatherv(&one, 1, MPI_DATATYPE_NULL, many, NULL, NULL, MPI_INT, MPI_COMM_WORLD));
	TRY(MPI_Alltoallv(many, NULL, NULL, MPI_INT, many, NULL, NULL, MPI_INT, MPI_COMM_NULL));
	TRY(MPI_Reduce_scatter(many, &sum, NULL, MPI_INT, MPI_SUM, MPI_COMM_NULL));
	TRY(MPI_Send(&one, 1, MPI_INT, n + 5, 0, MPI_COMM_WORLD));
	TRY(MPI_Send(&one, -1, MPI_INT, 0, 0, MPI_COMM_WORLD));
	TRY(MPI_Recv(&one, 1, MPI_INT, 0, -77, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
	TRY(MPI_Probe(n + 5, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
	TRY(MPI_Comm_rank(MPI_COMM_NULL, &index));
	TRY(MPI_Comm_rank(MPI_COMM_WORLD, NULL));
	TRY(MPI_Comm_size(MPI_COMM_WORLD, NULL));
	TRY(MPI_Comm_free(NULL));
	MPI_Wait(&under_way, MPI_STATUS_IGNORE);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("sum %d\n", sum);
	return MPI_Finalize();
}
