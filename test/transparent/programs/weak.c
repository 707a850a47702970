/* Calls of MPI 4 and 5 as weak references: taken where the library has them. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>

#define NAMES(X) X(MPI_Send_c) X(MPI_Recv_c) X(MPI_Allreduce_c) X(MPI_Bcast_c) X(MPI_Allgatherv_c) X(MPI_Alltoallw_c) X(MPI_Barrier_init) X(MPI_Allreduce_init) X(MPI_Isendrecv)
#pragma weak MPI_Send_c
#pragma weak MPI_Recv_c
#pragma weak MPI_Allreduce_c
#pragma weak MPI_Bcast_c
#pragma weak MPI_Allgatherv_c
#pragma weak MPI_Alltoallw_c
#pragma weak MPI_Barrier_init
#pragma weak MPI_Allreduce_init
#pragma weak MPI_Isendrecv
#if MPI_VERSION < 4
int MPI_Send_c(const void *, int64_t, MPI_Datatype, int, int, MPI_Comm);
int MPI_Recv_c(void *, int64_t, MPI_Datatype, int, int, MPI_Comm, MPI_Status *);
int MPI_Allreduce_c(const void *, void *, int64_t, MPI_Datatype, MPI_Op, MPI_Comm);
int MPI_Bcast_c(), MPI_Allgatherv_c(), MPI_Alltoallw_c(), MPI_Barrier_init(), MPI_Allreduce_init(), MPI_Isendrecv();
#endif

int main(int argc, char **argv) {
	int rank, size, value = -1;
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &size);
	if (rank == 0) {
#define SAY(name) printf(#name " %s\n", name ? "is there" : "is not there");
		NAMES(SAY)
		value = 42;
		for (int to = 1; to < size; to++)
			MPI_Send_c ? MPI_Send_c(&value, 1, MPI_INT, to, 7, MPI_COMM_WORLD) : MPI_Send(&value, 1, MPI_INT, to, 7, MPI_COMM_WORLD);
	} else {
		MPI_Recv_c ? MPI_Recv_c(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE) : MPI_Recv(&value, 1, MPI_INT, 0, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	}
	int sum = 0;
	MPI_Allreduce_c ? MPI_Allreduce_c(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD) : MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	if (rank == 0)
		printf("sum %d of %d\n", sum, size);
	return MPI_Finalize();
}
