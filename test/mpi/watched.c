/* watched: what calls of MPI take, for a comparison with and without libmpiup-watch.so (watch.go). Rank 0 prints a line "NAME VALUE" for each.
   One rank alone: "call", nanoseconds of an Allreduce over itself. More: "barrier", milliseconds from $T0 to the first one's end; "pingpong",
   microseconds of a round trip; "hundred", seconds of 100 steps of computing, about 10 ms each, and an Allreduce; "triad", nanoseconds a number. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { CALLS = 100000, TRIPS = 2000, STEPS = 100, NUMBERS = 2 << 20, REPEATED = 8, BEST = 5 };

static int rank, n;
static volatile double sink;

static void tell(const char *name, double value) {
	double most;
	MPI_Allreduce(&value, &most, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
	if (rank == 0)
		printf("%s %g\n", name, most);
}

static void reduce(void) {
	double x = 1, y;
	MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static double calls(void) {
	double from = MPI_Wtime();
	for (int i = 0; i < CALLS; i++)
		reduce();
	return (MPI_Wtime() - from) / CALLS * 1e9;
}

static double pingpong(void) {
	double x = 1, from = MPI_Wtime();
	for (int i = 0; i < TRIPS; i++) {
		if (rank == 0) {
			MPI_Send(&x, 1, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD);
			MPI_Recv(&x, 1, MPI_DOUBLE, 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		} else if (rank == 1) {
			MPI_Recv(&x, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			MPI_Send(&x, 1, MPI_DOUBLE, 0, 1, MPI_COMM_WORLD);
		}
	}
	return (MPI_Wtime() - from) / TRIPS * 1e6;
}

static double hundred(void) {
	double from = MPI_Wtime();
	for (int i = 0; i < STEPS; i++) {
		double sum = i;
		for (int j = 0; j < 4000000; j++)
			sum = sum * 0.999 + j;
		sink = sum;
		reduce();
	}
	return MPI_Wtime() - from;
}

static double triad(double *a, const double *b, const double *c) {
	double from = MPI_Wtime();
	for (int i = 0; i < REPEATED; i++) {
		for (long j = 0; j < NUMBERS; j++)
			a[j] = b[j] + 3 * c[j];
		sink = a[i];
		reduce();
	}
	return (MPI_Wtime() - from) / REPEATED / NUMBERS * 1e9;
}

/* best is the least of several: what else runs on the machine only adds. */
#define best(call)                                                      \
	({                                                              \
		double least = 1e300;                                   \
		for (int time = 0; time < BEST; time++) {               \
			MPI_Barrier(MPI_COMM_WORLD);                    \
			double it = call;                               \
			least = it < least ? it : least;                \
		}                                                       \
		least;                                                  \
	})

int main(int argc, char **argv) {
	struct timespec now;
	MPI_Init(&argc, &argv);
	MPI_Barrier(MPI_COMM_WORLD);
	clock_gettime(CLOCK_REALTIME, &now);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n);
	if (n == 1) {
		tell("call", best(calls()));
		MPI_Finalize();
		return 0;
	}
	tell("barrier", ((double)now.tv_sec * 1e9 + (double)now.tv_nsec - atof(getenv("T0"))) / 1e6);
	tell("pingpong", best(pingpong()));
	tell("hundred", hundred());
	double *a = calloc(NUMBERS, sizeof *a), *b = calloc(NUMBERS, sizeof *b), *c = calloc(NUMBERS, sizeof *c);
	if (!a || !b || !c)
		MPI_Abort(MPI_COMM_WORLD, 1);
	for (long j = 0; j < NUMBERS; j++)
		b[j] = (double)j, c[j] = rank;
	tell("triad", best(triad(a, b, c)));
	MPI_Finalize();
	return 0;
}
