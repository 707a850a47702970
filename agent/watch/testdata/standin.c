/* With -DLIBRARY what a program sees of an MPI library, of one rank, whose barriers take 20 ms; else the program, with five of them, two of which
   are a persistent request's. The library has no call with counts of 64 bits, which the program asks for by weak symbols, as mpi4py does. */
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

#define IGNORED ((int *)1) /* MPICH's MPI_STATUS_IGNORE: it takes no 0 */

int MPI_Init(int *argc, char ***argv);
int MPI_Barrier(int comm);
int MPI_Barrier_init(int comm, int info, int *request);
int MPI_Start(int *request);
int MPI_Wait(int *request, int *status);
int MPI_Request_free(int *request);
int MPI_Finalize(void);
int MPI_Scan_c(const void *from, void *to, int64_t count, int type, int op, int comm) __attribute__((weak));
int MPI_Comm_rank(int comm, int *rank);
int MPI_Comm_size(int comm, int *size);

#ifdef LIBRARY
int MPI_Init(int *argc, char ***argv) { return !argc || !argv; }
int MPI_Finalize(void) { return 0; }
int MPI_Comm_rank(int comm, int *rank) { return *rank = 0, comm != 0x44000000; }
int MPI_Comm_size(int comm, int *size) { return *size = 1, comm != 0x44000000; }
int MPI_Comm_compare(int a, int b, int *how) { return *how = a == b ? 0 : 3, 0; }
int MPI_Query_thread(int *level) { return *level = 0; }
int MPI_Barrier(int comm) {
	struct timespec t = {0, 20000000};
	return comm != 0x44000000 || nanosleep(&t, &t);
}
static int active; /* the one persistent request was started */

int MPI_Barrier_init(int comm, int info, int *request) { return *request = 7, comm != 0x44000000 || info != 1; }
int MPI_Start(int *request) { return *request != 7 || active++; }
int MPI_Wait(int *request, int *status) {
	int was = active;
	active = 0;
	return *request != 7 || status != IGNORED || (was && MPI_Barrier(0x44000000));
}
int MPI_Request_free(int *request) { return *request = 0; }
#else
/* A persistent request is waited for twice while it is active, and twice while it is not; what is started once it is freed is another's. */
static int persistent(void) {
	int request, failed = MPI_Barrier_init(0x44000000, 1, &request);
	for (int i = 0; i < 2; i++)
		failed |= MPI_Start(&request) | MPI_Wait(&request, IGNORED) | MPI_Wait(&request, IGNORED);
	failed |= MPI_Request_free(&request);
	request = 7;
	return failed | MPI_Start(&request) | MPI_Wait(&request, IGNORED);
}

int main(int argc, char **argv) {
	int failed = MPI_Init(&argc, &argv);
	if (MPI_Scan_c)
		return 2;
	if (getenv("MPIUP_WATCH_PAGE") || (argc > 1 && getenv("LD_PRELOAD"))) /* what the agent says is kept from the program */
		return 3;
	int rank, size;
	if (MPI_Comm_rank(0x44000000, &rank) || MPI_Comm_size(0x44000000, &size))
		return 4;
	for (int i = 0; i < 3; i++)
		failed |= MPI_Barrier(0x44000000);
	return failed | persistent() | MPI_Finalize();
}
#endif
