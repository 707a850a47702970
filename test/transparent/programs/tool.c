/* A tool that is linked in counts calls which nobody else makes; an error handler counts how often it is called. */
#include <mpi.h>
#include <stdio.h>

static int ranks, sizes, compares, levels, versions, inits, errors;
int MPI_Comm_rank(MPI_Comm c, int *r) { ranks++; return PMPI_Comm_rank(c, r); }
int MPI_Comm_size(MPI_Comm c, int *s) { sizes++; return PMPI_Comm_size(c, s); }
int MPI_Comm_compare(MPI_Comm a, MPI_Comm b, int *how) { compares++; return PMPI_Comm_compare(a, b, how); }
int MPI_Query_thread(int *level) { levels++; return PMPI_Query_thread(level); }
int MPI_Get_library_version(char *text, int *n) { versions++; return PMPI_Get_library_version(text, n); }
int MPI_Init(int *argc, char ***argv) { inits++; return PMPI_Init(argc, argv); }
static void failed(MPI_Comm *comm, int *code, ...) { (void)comm, (void)code, errors++; }

int main(int argc, char **argv) {
	int one = 1, sum = 0, rank;
	MPI_Comm copy, none = MPI_COMM_NULL;
	MPI_Errhandler handler;
	MPI_Init(&argc, &argv);
	MPI_Comm_create_errhandler(failed, &handler);
	MPI_Comm_set_errhandler(MPI_COMM_WORLD, handler);
	MPI_Comm_set_errhandler(MPI_COMM_SELF, handler);
	MPI_Comm_dup(MPI_COMM_WORLD, &copy);
	for (int i = 0; i < 3; i++) {
		MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copy);
		MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
		MPI_Barrier(none);
		MPI_Allreduce(&one, &sum, 1, MPI_DATATYPE_NULL, MPI_SUM, copy);
	}
	MPI_Comm_free(&copy);
	PMPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("inits %d ranks %d sizes %d compares %d levels %d versions %d errors %d\n", inits, ranks, sizes, compares, levels, versions, errors);
	MPI_Errhandler_free(&handler);
	return MPI_Finalize();
}
