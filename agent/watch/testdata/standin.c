/* With -DLIBRARY what a program sees of an MPI library, of one rank, whose barriers take 20 ms; else the program, with three of them. */
#include <time.h>

int MPI_Init(int *argc, char ***argv);
int MPI_Barrier(int comm);
int MPI_Finalize(void);

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
int MPI_Barrier(int comm) {
	struct timespec t = {0, 20000000};
	return comm != 0x44000000 || nanosleep(&t, &t);
}
#else
int main(int argc, char **argv) {
	int failed = MPI_Init(&argc, &argv);
	for (int i = 0; i < 3; i++)
		failed |= MPI_Barrier(0x44000000);
	return failed | MPI_Finalize();
}
#endif
