/* stream: how fast all ranks together read and write memory, which depends on where each of them runs and
 * where its memory is. Each rank has three arrays of ARGV[1] MiB, more than its share of any cache, and fills
 * them itself, so that they are of the NUMA node where it runs. What counts is the slowest rank of a
 * repetition, and of those the best one (as in McCalpin's STREAM, whose triad this is). Rank 0 prints MB/s. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { repetitions = 20 };

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    int rank, size;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    long n = (argc > 1 ? atol(argv[1]) : 16) * 1048576L / (long)sizeof(double);
    double *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b), *c = malloc(n * sizeof *c);
    if (n <= 0 || !a || !b || !c) {
        fprintf(stderr, "stream: rank %d has no memory for three arrays of %ld numbers\n", rank, n);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    for (long i = 0; i < n; i++)
        a[i] = 0, b[i] = i, c[i] = rank;

    double best = 0;
    for (int k = 0; k < repetitions; k++) {
        MPI_Barrier(MPI_COMM_WORLD);
        double begin = MPI_Wtime();
        for (long i = 0; i < n; i++)
            a[i] = b[i] + 3 * c[i];
        double took = MPI_Wtime() - begin, slowest;
        MPI_Allreduce(&took, &slowest, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
        double rate = 3.0 * sizeof(double) * (double)n * size / slowest / 1e6;
        if (rate > best)
            best = rate;
        c[k % n] = a[(n - 1) % (k + 1)]; /* so that no repetition can be left out */
    }
    if (a[n - 1] != b[n - 1] + 3 * c[n - 1] && n > repetitions) {
        fprintf(stderr, "stream: rank %d computed something else\n", rank);
        MPI_Abort(MPI_COMM_WORLD, 1);
    }
    if (rank == 0)
        printf("%.0f\n", best);
    MPI_Finalize();
    return 0;
}
