/* With -DLIBRARY a layer between a program and some MPI: its version says that it is MPICH, and its handles are addresses of its own, in C and in
   Fortran. Any other handle is an error, as is a call before MPI_Init or after MPI_Finalize. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct comm *MPI_Comm;
extern struct comm { int size; } layers_world;
int MPI_Init(int *argc, char ***argv);
int MPI_Comm_rank(MPI_Comm comm, int *rank);
int MPI_Comm_size(MPI_Comm comm, int *size);
int MPI_Barrier(MPI_Comm comm);
int MPI_Finalize(void);

#ifdef LIBRARY
struct comm layers_world = {1};
static int up;
static int judged(MPI_Comm comm) {
	if (!up || comm != &layers_world)
		abort();
	return 0;
}
int PMPI_Init(int *argc, char ***argv) { return (void)argc, (void)argv, up = 1, 0; }
int MPI_Init(int *argc, char ***argv) { return PMPI_Init(argc, argv); }
int PMPI_Comm_rank(MPI_Comm comm, int *rank) { return *rank = 0, judged(comm); }
int MPI_Comm_rank(MPI_Comm comm, int *rank) { return PMPI_Comm_rank(comm, rank); }
int PMPI_Comm_size(MPI_Comm comm, int *size) { return *size = 1, judged(comm); }
int MPI_Comm_size(MPI_Comm comm, int *size) { return PMPI_Comm_size(comm, size); }
int PMPI_Comm_compare(MPI_Comm a, MPI_Comm b, int *how) { return *how = a != b, judged(a) | judged(b); }
int MPI_Comm_compare(MPI_Comm a, MPI_Comm b, int *how) { return PMPI_Comm_compare(a, b, how); }
MPI_Comm PMPI_Comm_f2c(int comm) { return comm == 7 ? &layers_world : NULL; }
int PMPI_Get_library_version(char *text, int *n) { return strcpy(text, "MPICH Version: 4.0"), *n = (int)strlen(text), 0; }
int MPI_Barrier(MPI_Comm comm) { return judged(comm); }
int MPI_Finalize(void) { return up = 0, 0; }
#else
int main(int argc, char **argv) {
	int rank, size, failed = MPI_Init(&argc, &argv);
	failed |= MPI_Comm_rank(&layers_world, &rank) | MPI_Comm_size(&layers_world, &size);
	for (int i = 0; i < 3; i++)
		failed |= MPI_Barrier(&layers_world);
	failed |= MPI_Finalize();
	usleep(200000); /* in which its page is claimed, as an agent does */
	return failed;
}
#endif
