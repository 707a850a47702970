// A program that saves when its hosts are taken away, and goes on where it was (docs/preemption.md):
//
//	mpicc -O2 -o checkpoint checkpoint.c
//	mpiup run -n 4 --checkpoint-dir /shared/run1 ./checkpoint 1000 10
//
// Its ranks sum the squares of the numbers from 1 to their product, STEPS with MILLISECONDS each. After SIGTERM to any pod of
// the job mpiup run ends with 249; the same command again resumes, and the sum at the end is the same.
//
// Three things matter, whatever is computed:
//   - The handler sets a flag and nothing else. Ranks see it at different times, so they agree at each step whether to end.
//   - A file gets its name when it is whole, and "latest" is written when all ranks' files are there: a kill at any moment
//     leaves the last whole checkpoint.
//   - All ranks end by themselves, with any code, before --term-grace is over.
#include <mpi.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static volatile sig_atomic_t told;

static void tell(int sig) {
    (void)sig;
    told = 1;
}

static const char *dir; // NULL: nobody said where to save
static int rank, size;

static void fail(const char *what) {
    perror(what);
    MPI_Abort(MPI_COMM_WORLD, 1);
}

// put writes a file under its name when all of it is on the disk.
static void put(const char *name, long step, long sum) {
    char path[4096], whole[4200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    snprintf(whole, sizeof whole, "%s.%d.part", path, rank);
    FILE *f = fopen(whole, "w");
    if (!f || fprintf(f, "%d %ld %ld\n", size, step, sum) < 0 || fflush(f) || fsync(fileno(f)) || fclose(f) || rename(whole, path))
        fail(path);
}

// get reads a file that put wrote; 0 where there is none.
static int get(const char *name, long *step, long *sum) {
    char path[4096];
    int ranks;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "r");
    if (!f) return 0;
    if (fscanf(f, "%d %ld %ld", &ranks, step, sum) != 3 || ranks != size) {
        fprintf(stderr, "%s is no checkpoint of %d ranks\n", path, size);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    fclose(f);
    return 1;
}

// Two checkpoints take turns, so that the last one stays whole while the next is written.
static void name_of(char *name, size_t n, long turn) { snprintf(name, n, "rank-%d.%ld", rank, turn); }

static void save(long step, long sum, long turn) {
    char name[64];
    if (!dir) return;
    name_of(name, sizeof name, turn);
    put(name, step, sum);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == 0) put("latest", step, turn);
}

int main(int argc, char **argv) {
    long steps = argc > 1 ? atol(argv[1]) : 1000, pause = argc > 2 ? atol(argv[2]) : 10, turn = 0, sum = 0, total;
    const char *number = getenv("MPIUP_PREEMPT_SIGNAL"), *restarts = getenv("MPIUP_RESTART_COUNT");
    struct sigaction act = {.sa_handler = tell, .sa_flags = SA_RESTART};

    sigaction(number ? atoi(number) : SIGTERM, &act, NULL); // before MPI_Init, which may take long
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    dir = getenv("MPIUP_CHECKPOINT_DIR");

    long state[2] = {0, 0}; // the step to begin with, and which of the two checkpoints it is from
    if (dir && rank == 0) get("latest", &state[0], &state[1]);
    MPI_Bcast(state, 2, MPI_LONG, 0, MPI_COMM_WORLD);
    if (state[0] > 0) {
        char name[64];
        long step = 0;
        name_of(name, sizeof name, state[1]);
        if (!get(name, &step, &sum) || step != state[0]) {
            fprintf(stderr, "rank %d does not find what it saved in %s: is it one directory on all hosts?\n", rank, dir);
            MPI_Abort(MPI_COMM_WORLD, 1);
        }
        turn = 1 - state[1];
    }
    if (rank == 0) printf("begins at step %ld, restart %s\n", state[0], restarts ? restarts : "unknown"), fflush(stdout);

    for (long step = state[0]; step < steps; step++) {
        long n = step * size + rank + 1;
        sum += n * n;
        usleep(pause * 1000);
        int here = told, anywhere;
        MPI_Allreduce(&here, &anywhere, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
        if (anywhere) {
            save(step + 1, sum, turn);
            if (rank == 0) printf("saved at step %ld\n", step + 1), fflush(stdout);
            MPI_Finalize();
            return 0;
        }
        if ((step + 1) % 1000 == 0) { // a host may also be lost without a word
            save(step + 1, sum, turn);
            turn = 1 - turn;
        }
    }
    MPI_Reduce(&sum, &total, 1, MPI_LONG, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("the sum is %ld\n", total);
    MPI_Finalize();
    return 0;
}
