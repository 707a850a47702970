/* waits STEPS SECONDS SLOW FACTOR: every kind of call that libmpiup-watch.so stands before, and what each computes; then STEPS steps of
   so many seconds of sleep and an Allreduce, in which rank SLOW needs FACTOR times as long, for read_batch (-1: nobody). The sums do not depend on the steps. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static double sum;
static void add(double x) { sum = sum * 1.0000001 + x; }

static void nap(double s) {
	struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
	while (nanosleep(&t, &t))
		;
}

__attribute__((noinline)) static void read_batch(double s) {
	nap(s);
	__asm__ volatile(""); /* else it is gone from the stack: its last call takes its place */
}

static void blocking(MPI_Comm c, int rank, int n) {
	double *in = malloc(n * sizeof *in), *out = malloc(n * sizeof *out), one = rank + 1, all = 0;
	int *counts = malloc(n * sizeof *counts), *at = malloc(n * sizeof *at);
	for (int i = 0; i < n; i++)
		in[i] = rank * n + i, counts[i] = 1, at[i] = i;
	MPI_Barrier(c);
	MPI_Allreduce(&one, &all, 1, MPI_DOUBLE, MPI_SUM, c);
	add(all);
	MPI_Allreduce(MPI_IN_PLACE, &one, 1, MPI_DOUBLE, MPI_MAX, c);
	add(one);
	MPI_Allreduce(in, out, 0, MPI_DOUBLE, MPI_SUM, c);
	MPI_Allgather(&in[0], 1, MPI_DOUBLE, out, 1, MPI_DOUBLE, c);
	add(out[n - 1]);
	MPI_Allgatherv(&in[0], 1, MPI_DOUBLE, out, counts, at, MPI_DOUBLE, c);
	add(out[n - 1]);
	MPI_Alltoall(in, 1, MPI_DOUBLE, out, 1, MPI_DOUBLE, c);
	MPI_Allreduce(MPI_IN_PLACE, out, n, MPI_DOUBLE, MPI_SUM, c);
	add(out[0]);
	MPI_Alltoallv(in, counts, at, MPI_DOUBLE, out, counts, at, MPI_DOUBLE, c);
	MPI_Allreduce(MPI_IN_PLACE, out, n, MPI_DOUBLE, MPI_SUM, c);
	add(out[0]);
	MPI_Reduce_scatter(in, out, counts, MPI_DOUBLE, MPI_SUM, c);
	MPI_Bcast(out, 1, MPI_DOUBLE, 0, c);
	add(out[0]);
	MPI_Reduce_scatter_block(in, out, 1, MPI_DOUBLE, MPI_SUM, c);
	MPI_Bcast(out, 1, MPI_DOUBLE, n - 1, c);
	add(out[0]);
	MPI_Reduce(in, out, n, MPI_DOUBLE, MPI_SUM, 0, c);
	MPI_Scan(&one, &all, 1, MPI_DOUBLE, MPI_SUM, c);
	MPI_Exscan(&one, &all, 1, MPI_DOUBLE, MPI_SUM, c);
	MPI_Gather(&one, 1, MPI_DOUBLE, out, 1, MPI_DOUBLE, 0, c);
	MPI_Scatter(out, 1, MPI_DOUBLE, &all, 1, MPI_DOUBLE, 0, c);
	MPI_Sendrecv(&one, 1, MPI_DOUBLE, (rank + 1) % n, 1, &all, 1, MPI_DOUBLE, (rank + n - 1) % n, 1, c, MPI_STATUS_IGNORE);
	add(all);
	free(in), free(out), free(counts), free(at);
}

#if MPI_VERSION >= 4
/* Each persistent collective over all ranks, three times, alone and all at once. */
static void persistent(MPI_Comm c, int n, double *all, double *each, int *counts, int *at) {
	enum { KINDS = 8 };
	MPI_Request r[KINDS];
	MPI_Status s[KINDS];
	double a = 0, b = 0, d = 0, *more = malloc(3 * n * sizeof *more);
	MPI_Barrier_init(c, MPI_INFO_NULL, &r[0]);
	MPI_Allreduce_init(&all[0], &a, 1, MPI_DOUBLE, MPI_SUM, c, MPI_INFO_NULL, &r[1]);
	MPI_Allgather_init(&all[0], 1, MPI_DOUBLE, more, 1, MPI_DOUBLE, c, MPI_INFO_NULL, &r[2]);
	MPI_Allgatherv_init(&all[0], 1, MPI_DOUBLE, more + n, counts, at, MPI_DOUBLE, c, MPI_INFO_NULL, &r[3]);
	MPI_Alltoall_init(all, 1, MPI_DOUBLE, each, 1, MPI_DOUBLE, c, MPI_INFO_NULL, &r[4]);
	MPI_Alltoallv_init(all, counts, at, MPI_DOUBLE, more + 2 * n, counts, at, MPI_DOUBLE, c, MPI_INFO_NULL, &r[5]);
	MPI_Reduce_scatter_init(all, &b, counts, MPI_DOUBLE, MPI_SUM, c, MPI_INFO_NULL, &r[6]);
	MPI_Reduce_scatter_block_init(all, &d, 1, MPI_DOUBLE, MPI_SUM, c, MPI_INFO_NULL, &r[7]);
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < KINDS; i++) {
			MPI_Start(&r[i]);
			MPI_Wait(&r[i], MPI_STATUS_IGNORE);
		}
		MPI_Startall(KINDS, r);
		MPI_Waitall(KINDS, r, s);
		double sums[] = {a, b, d, more[0], more[n], more[2 * n], each[0]};
		MPI_Allreduce(MPI_IN_PLACE, sums, 7, MPI_DOUBLE, MPI_SUM, c);
		for (int i = 0; i < 7; i++)
			add(sums[i]);
	}
	for (int i = 0; i < KINDS; i++)
		MPI_Request_free(&r[i]);
	free(more);
}
#endif

static void starting(MPI_Comm c, int rank, int n) {
	MPI_Request r[4];
	MPI_Status s[4];
	double one = rank + 1, a = 0, b = 0, got = 0, *all = malloc(n * sizeof *all);
	int index, done = 0, indices[4], some;
	MPI_Iallreduce(&one, &a, 1, MPI_DOUBLE, MPI_SUM, c, &r[0]);
	MPI_Wait(&r[0], MPI_STATUS_IGNORE);
	MPI_Iallreduce(&one, &a, 1, MPI_DOUBLE, MPI_SUM, c, &r[0]);
	MPI_Iallreduce(&one, &b, 1, MPI_DOUBLE, MPI_MAX, c, &r[1]);
	MPI_Waitall(2, r, s);
	add(a), add(b);
	MPI_Iallgather(&one, 1, MPI_DOUBLE, all, 1, MPI_DOUBLE, c, &r[0]);
	MPI_Irecv(&got, 1, MPI_DOUBLE, (rank + n - 1) % n, 2, c, &r[1]);
	MPI_Isend(&one, 1, MPI_DOUBLE, (rank + 1) % n, 2, c, &r[2]);
	MPI_Waitall(3, r, s);
	add(all[0]), add(got);
	MPI_Ibarrier(c, &r[0]);
	while (!done)
		MPI_Test(&r[0], &done, MPI_STATUS_IGNORE);
	MPI_Ibarrier(c, &r[0]);
	MPI_Ibarrier(c, &r[1]);
	MPI_Waitany(2, r, &index, MPI_STATUS_IGNORE);
	MPI_Waitsome(2, r, &some, indices, s);
	MPI_Waitall(2, r, s);
	MPI_Ibarrier(c, &r[0]);
	for (done = 0; !done;)
		MPI_Testall(1, r, &done, s);
	MPI_Ibarrier(c, &r[0]);
	for (done = 0; !done;)
		MPI_Testany(1, r, &index, &done, MPI_STATUS_IGNORE);
	MPI_Ibarrier(c, &r[0]);
	for (some = 0; !some;)
		MPI_Testsome(1, r, &some, indices, s);
	int *counts = malloc(2 * n * sizeof *counts), *at = counts + n;
	for (int i = 0; i < n; i++)
		counts[i] = 1, at[i] = i;
	MPI_Iallgatherv(&one, 1, MPI_DOUBLE, all, counts, at, MPI_DOUBLE, c, &r[0]);
	MPI_Wait(&r[0], MPI_STATUS_IGNORE);
	add(all[n - 1]);
	double *each = malloc(n * sizeof *each);
	MPI_Ialltoallv(all, counts, at, MPI_DOUBLE, each, counts, at, MPI_DOUBLE, c, &r[0]);
	MPI_Ireduce_scatter(all, &a, counts, MPI_DOUBLE, MPI_SUM, c, &r[1]);
	MPI_Waitall(2, r, s);
	MPI_Allreduce(MPI_IN_PLACE, &a, 1, MPI_DOUBLE, MPI_MAX, c);
	MPI_Allreduce(MPI_IN_PLACE, each, n, MPI_DOUBLE, MPI_SUM, c);
	add(a), add(each[0]);
#if MPI_VERSION >= 4
	persistent(c, n, all, each, counts, at);
#endif
	free(all), free(each), free(counts);
}

int main(int argc, char **argv) {
	int rank, n, level;
	MPI_Init_thread(&argc, &argv, MPI_THREAD_SERIALIZED, &level);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n);
	if (argc != 5)
		MPI_Abort(MPI_COMM_WORLD, 2);
	MPI_Comm copy, half;
	for (int i = 0; i < 3; i++) {
		MPI_Comm_dup(MPI_COMM_WORLD, &copy);
		MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
		blocking(MPI_COMM_WORLD, rank, n);
		blocking(copy, rank, n);
		starting(MPI_COMM_WORLD, rank, n);
		int r, size;
		MPI_Comm_rank(half, &r);
		MPI_Comm_size(half, &size);
		double before = sum;
		blocking(half, r, size);
		sum = before; /* it differs by half */
		MPI_Comm_free(&half);
		MPI_Comm_free(&copy);
	}
	double wait = atof(argv[2]), x = 1, y;
	for (int i = 0; i < atoi(argv[1]); i++) {
		nap(wait);
		if (rank == atoi(argv[3]))
			read_batch(wait * (atof(argv[4]) - 1));
		MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
	}
	printf("rank %d of %d: %a\n", rank, n, sum);
	MPI_Finalize();
	return 0;
}
