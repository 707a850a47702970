/* Requests of every kind among each other, in arrays of all sizes, and what they bring. */
#include <mpi.h>
#include <stdio.h>
enum { MANY = 100 };
int main(int argc, char **argv) {
	int rank, n, out[MANY], sums[MANY], flag, count, indices[MANY], errors = 0;
	long checksum = 0;
	MPI_Request r[MANY];
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n);
	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < MANY; i++) {
			out[i] = i + round;
			if (i % 4 == 0)
				MPI_Iallreduce(&out[i], &sums[i], 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD, &r[i]);
			else if (i % 4 == 1)
				MPI_Irecv(&sums[i], 1, MPI_INT, (rank + n - 1) % n, i, MPI_COMM_WORLD, &r[i]);
			else if (i % 4 == 2)
				MPI_Isend(&out[i], 1, MPI_INT, (rank + 1) % n, i - 1, MPI_COMM_WORLD, &r[i]), sums[i] = 0;
			else
				r[i] = MPI_REQUEST_NULL, sums[i] = 0;
		}
		if (round % 4 == 0)
			errors += MPI_Waitall(MANY, r, MPI_STATUSES_IGNORE) != 0;
		else if (round % 4 == 1)
			for (int done = 0, index; done < 3 * MANY / 4; done++)
				errors += MPI_Waitany(MANY, r, &index, MPI_STATUS_IGNORE) != 0 || index == MPI_UNDEFINED;
		else if (round % 4 == 2)
			for (int done = 0; done < 3 * MANY / 4; done += count)
				errors += MPI_Waitsome(MANY, r, &count, indices, MPI_STATUSES_IGNORE) != 0;
		else
			for (flag = 0; !flag;)
				errors += MPI_Testall(MANY, r, &flag, MPI_STATUSES_IGNORE) != 0;
		for (int i = 0; i < MANY; i++)
			checksum = checksum * 31 + sums[i];
	}
	MPI_Barrier(MPI_COMM_WORLD);
	if (rank == 0)
		printf("%lx, errors %d\n", checksum, errors);
	return MPI_Finalize();
}
