/* family: MPI_Comm_spawn and MPI_Comm_spawn_multiple. The ranks together spawn two children; then rank 0 alone two
 * programs of one and two children. Every child checks its arguments, and counts all over the merged
 * communicator, as the parents do. "family ok" from rank 0. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "finalize.h"

static int fail(const char *what, int n) {
    fprintf(stderr, "family: %s: %d\n", what, n);
    MPI_Abort(MPI_COMM_WORLD, 9);
    return 1;
}

/* greet counts the members of both groups, and disconnects; a child does not know how many to want (0). */
static void greet(MPI_Comm other, int high, int want) {
    MPI_Comm all;
    int one = 1, sum = 0;
    MPI_Intercomm_merge(other, high, &all);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, all);
    if (want && sum != want) fail("members of the merged group", sum);
    MPI_Comm_free(&all);
    MPI_Comm_disconnect(&other);
}

static int child(int argc, char **argv, MPI_Comm parent) {
    int rank, size, *appnum, found;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (argc < 3 || strcmp(argv[2], "two words")) return fail("arguments", argc);
    if (size != atoi(argv[1] + 1)) return fail("size of the child's world", size);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &appnum, &found);
    if (argc > 3 && found && *appnum != atoi(argv[3])) return fail("MPI_APPNUM", *appnum);
    greet(parent, 1, 0);
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv) {
    int rank, size, codes[3];
    MPI_Comm parent, children;
    MPI_Init(&argc, &argv);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) return child(argc, argv, parent);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);

    char *two[] = {"=2", "two words", NULL};
    MPI_Comm_spawn(argv[0], two, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, codes);
    for (int i = 0; rank == 0 && i < 2; i++)
        if (codes[i] != MPI_SUCCESS) return fail("error code of a child", codes[i]);
    greet(children, 0, size + 2);

    char *programs[] = {argv[0], argv[0]};
    char *first[] = {"=3", "two words", "0", NULL}, *second[] = {"=3", "two words", "1", NULL};
    char **arguments[] = {first, second};
    int counts[] = {1, 2};
    MPI_Info infos[] = {MPI_INFO_NULL, MPI_INFO_NULL};
    if (rank == 0) {
        MPI_Comm_spawn_multiple(2, programs, arguments, counts, infos, 0, MPI_COMM_SELF, &children, codes);
        greet(children, 0, 4);
        puts("family ok");
    }
    MPI_Barrier(MPI_COMM_WORLD);
    MPI_Finalize();
    return 0;
}
