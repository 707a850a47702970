/* balanced HABIT SECONDS STEP SEED: a program of which no rank is slow for long, whatever it does. Steps sleep, but for "polls" and "computes".
	alike        all need about as long
	starts       rank 0 reads what the others wait for, and then all are alike
	checkpoints  rank 0 alone saves now and then
	evaluates    the last rank alone evaluates now and then
	pipeline     each stage waits for the one before it, and all meet after four pieces
	stream       the same in many small messages
	workers      rank 0 hands out work and gathers it, and all meet
	halo         each waits for its neighbours, and all meet
	moves        a rank needs twice as long, another one each time
	phases       the same, for ten steps each
	polls        all ask all the time whether all are there
	computes     all use a processor */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "finalize.h"

void step_sleep(double s);
void step_use(double s);

static int rank, n;
static unsigned chance;

enum { SMALL = 300 }; /* messages of a piece of a stream */

/* about is a time that differs by a twentieth, another on each rank. */
static double about(double s) { return s * (0.95 + 0.1 * (double)rand_r(&chance) / RAND_MAX); }

static void meet(void) {
	double x = 1, y;
	MPI_Allreduce(&x, &y, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
}

static void pipeline(double s, int messages) {
	double piece = 1;
	for (int i = 0; i < 4; i++) {
		for (int k = 0; rank > 0 && k < messages; k++)
			MPI_Recv(&piece, 1, MPI_DOUBLE, rank - 1, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
		step_sleep(about(s));
		for (int k = 0; rank < n - 1 && k < messages; k++)
			MPI_Send(&piece, 1, MPI_DOUBLE, rank + 1, 1, MPI_COMM_WORLD);
	}
}

static void workers(double s) {
	int task = 0, left = 3 * (n - 1), out = 0;
	if (rank > 0) {
		MPI_Send(&task, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
		for (;;) {
			MPI_Recv(&task, 1, MPI_INT, 0, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
			if (task < 0)
				return;
			step_sleep(about(s) * (0.5 + (double)rand_r(&chance) / RAND_MAX));
			MPI_Send(&task, 1, MPI_INT, 0, 1, MPI_COMM_WORLD);
		}
	}
	for (out = n - 1; out > 0;) {
		MPI_Status from;
		MPI_Recv(&task, 1, MPI_INT, MPI_ANY_SOURCE, 1, MPI_COMM_WORLD, &from);
		task = left-- > 0 ? 1 : -1;
		out -= task < 0;
		MPI_Send(&task, 1, MPI_INT, from.MPI_SOURCE, 2, MPI_COMM_WORLD);
	}
}

static void halo(double s) {
	double mine = 1, theirs;
	step_sleep(about(s));
	MPI_Sendrecv(&mine, 1, MPI_DOUBLE, (rank + 1) % n, 1, &theirs, 1, MPI_DOUBLE, (rank + n - 1) % n, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
	MPI_Sendrecv(&mine, 1, MPI_DOUBLE, (rank + n - 1) % n, 2, &theirs, 1, MPI_DOUBLE, (rank + 1) % n, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
}

int main(int argc, char **argv) {
	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &n);
	if (argc != 5)
		MPI_Abort(MPI_COMM_WORLD, 2);
	const char *habit = argv[1];
	double seconds = atof(argv[2]), s = atof(argv[3]);
	unsigned same = (unsigned)atoi(argv[4]); /* all ranks draw alike from it */
	chance = same * 1000 + (unsigned)rank;
	rand_r(&chance);
	int on = 1, odd = rand_r(&same) % n;
	double from = MPI_Wtime();
	if (!strcmp(habit, "starts")) {
		if (rank == 0)
			step_sleep(20 * s);
		meet();
	}
	for (int i = 0; on; i++) {
		if (!strcmp(habit, "pipeline"))
			pipeline(s, 1);
		else if (!strcmp(habit, "stream"))
			pipeline(s, SMALL);
		else if (!strcmp(habit, "workers"))
			workers(s);
		else if (!strcmp(habit, "halo"))
			halo(s);
		else if (!strcmp(habit, "computes"))
			step_use(about(s));
		else if (!strcmp(habit, "polls")) {
			MPI_Request r;
			step_use(about(s) / 4);
			MPI_Ibarrier(MPI_COMM_WORLD, &r);
			for (int done = 0; !done;)
				MPI_Test(&r, &done, MPI_STATUS_IGNORE);
		} else {
			if (!strcmp(habit, "moves") || (!strcmp(habit, "phases") && i % 10 == 0))
				odd = (odd + 1 + rand_r(&same) % (n - 1)) % n; /* another one than before */
			int moves = !strcmp(habit, "moves") || !strcmp(habit, "phases");
			step_sleep(about(s) * (moves && rank == odd ? 2 : 1));
			if (!strcmp(habit, "checkpoints") && i % 20 == 19 && rank == 0)
				step_sleep(8 * s);
			if (!strcmp(habit, "evaluates") && i % 15 == 14 && rank == n - 1)
				step_sleep(6 * s);
		}
		meet();
		if (i % 8 == 7) {
			on = MPI_Wtime() - from < seconds;
			MPI_Bcast(&on, 1, MPI_INT, 0, MPI_COMM_WORLD);
		}
	}
	MPI_Finalize();
	return 0;
}
