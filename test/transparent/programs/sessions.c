/* Collectives in a session, opened before the world model and used when that is finalized. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv) {
#if MPI_VERSION >= 4 || OMPI_MAJOR_VERSION >= 5
	MPI_Session session;
	MPI_Group group;
	MPI_Comm comm;
	int rank, one = 1, sum = 0;
	MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_RETURN, &session);
	MPI_Init(&argc, &argv);
	MPI_Barrier(MPI_COMM_WORLD);
	MPI_Finalize();
	MPI_Group_from_session_pset(session, "mpi://WORLD", &group);
	int failed = MPI_Comm_create_from_group(group, "transparent", MPI_INFO_NULL, MPI_ERRORS_RETURN, &comm);
	if (failed) {
		printf("no communicator after MPI_Finalize\n");
		return 0;
	}
	MPI_Group_free(&group);
	MPI_Comm_rank(comm, &rank);
	for (int i = 0; i < 3; i++)
		failed |= MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, comm);
	if (rank == 0)
		printf("%d ranks, failed %d\n", sum, failed);
	MPI_Comm_free(&comm);
	MPI_Session_finalize(&session);
#else
	(void)argc, (void)argv;
	printf("no sessions in MPI %d\n", MPI_VERSION);
#endif
	return 0;
}
