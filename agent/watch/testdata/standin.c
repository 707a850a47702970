/* With -DLIBRARY what a program sees of an MPI library, of one rank, whose barriers take 20 ms; else the program, with five of them, two of which
   are a persistent request's. The library
   has no call with counts of 64 bits. The program has such as weak symbols, as mpi4py has, and makes them where they are there. */
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

int MPI_Init(int *argc, char ***argv);
int MPI_Barrier(int comm);
int MPI_Barrier_init(int comm, int info, int *request);
int MPI_Start(int *request);
int MPI_Wait(int *request, int *status);
int MPI_Request_free(int *request);
int MPI_Finalize(void);
int MPI_Scan_c(const void *from, void *to, int64_t count, int type, int op, int comm) __attribute__((weak));
int MPI_Gatherv_c(const void *from, int64_t sent, int type, void *to, const int64_t *counts, const intptr_t *places, int as, int root, int comm) __attribute__((weak));

#ifdef LIBRARY
#include <string.h>

int MPI_Init(int *argc, char ***argv) { return !argc || !argv; }
int MPI_Finalize(void) { return 0; }
int MPI_Comm_rank(int comm, int *rank) { return *rank = 0, comm != 0x44000000; }
int MPI_Comm_size(int comm, int *size) { return *size = 1, comm != 0x44000000; }
int MPI_Comm_compare(int a, int b, int *how) { return *how = a == b ? 0 : 3, 0; }
int MPI_Query_thread(int *level) { return *level = 0; }
int MPI_Get_library_version(char *text, int *n) {
	strcpy(text, "MPICH of a test");
	return *n = (int)strlen(text), 0;
}
int MPI_Scan(const void *from, void *to, int count, int type, int op, int comm) {
	return !(from == (void *)2 && to == (void *)3 && count == 1 << 30 && type == 4 && op == 5 && comm == 0x44000000);
}
int MPI_Gatherv(const void *from, int sent, int type, void *to, const int *counts, const int *places, int as, int root, int comm) {
	if (root == 1) /* another is, and this rank's counts are not read */
		return counts || places;
	return !(from == (void *)2 && sent == 3 && type == 4 && to == (void *)5 && counts[0] == 6 && places[0] == 7 && as == 8 && root == 0 && comm == 0x44000000);
}
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
	return *request != 7 || status || (was && MPI_Barrier(0x44000000));
}
int MPI_Request_free(int *request) { return *request = 0; }
#else
/* Calls that fit are made, and those whose counts the library cannot have are errors. */
static int large(void) {
	const int64_t counts[] = {6}, many[] = {1ll << 32};
	const intptr_t places[] = {7};
	return MPI_Scan_c((void *)2, (void *)3, 1 << 30, 4, 5, 0x44000000) || !MPI_Scan_c((void *)2, (void *)3, 1ll << 32, 4, 5, 0x44000000) ||
	       MPI_Gatherv_c((void *)2, 3, 4, (void *)5, counts, places, 8, 0, 0x44000000) || !MPI_Gatherv_c((void *)2, 3, 4, (void *)5, many, places, 8, 0, 0x44000000) ||
	       MPI_Gatherv_c((void *)2, 3, 4, (void *)5, (void *)1, (void *)1, 8, 1, 0x44000000);
}

/* A persistent request is waited for twice while it is active, and twice while it is not; what is started once it is freed is another's. */
static int persistent(void) {
	int request, failed = MPI_Barrier_init(0x44000000, 1, &request);
	for (int i = 0; i < 2; i++)
		failed |= MPI_Start(&request) | MPI_Wait(&request, 0) | MPI_Wait(&request, 0);
	failed |= MPI_Request_free(&request);
	request = 7;
	return failed | MPI_Start(&request) | MPI_Wait(&request, 0);
}

int main(int argc, char **argv) {
	int failed = MPI_Init(&argc, &argv);
	if (!*getenv("LD_PRELOAD") != !!*getenv("MPIUP_WATCH_PAGE")) /* a watched process hands the library on to no other */
		return 3;
	if (!MPI_Scan_c || !MPI_Gatherv_c || large())
		return 2;
	for (int i = 0; i < 3; i++)
		failed |= MPI_Barrier(0x44000000);
	return failed | persistent() | MPI_Finalize();
}
#endif
