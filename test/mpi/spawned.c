/* spawned: ranks spawn more of the same program and talk to them. "spawned ok N" from rank 0, where N
 * processes were spawned, or which step went wrong. With an argument only that step:
 *   one       all ranks spawn two processes, twice
 *   multiple  all ranks spawn two programs, of two and one processes, with variables and a directory
 *   self      each rank spawns a process of its own
 *   chain     a process that was spawned spawns another
 *   failing   spawns what does not exist, and goes on */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* WORDS is an argument with a blank and with a byte that is no UTF-8. */
#define WORDS "two w\366rds"

static int rank, size, spawned;

static void fail(const char *what) {
    fprintf(stderr, "rank %d: %s\n", rank, what);
    MPI_Abort(MPI_COMM_WORLD, 9);
}
#define WANT(x) do { if (!(x)) fail(#x); } while (0)

/* talk is what both sides of an intercommunicator do: n processes on the other side. */
static void talk(MPI_Comm other, int parents, int n) {
    MPI_Comm both;
    int remote, mine, sum = 0, total, place;
    MPI_Comm_remote_size(other, &remote);
    WANT(remote == n);
    MPI_Intercomm_merge(other, !parents, &both);
    MPI_Comm_rank(both, &place), MPI_Comm_size(both, &total);
    mine = place + 1;
    MPI_Allreduce(&mine, &sum, 1, MPI_INT, MPI_SUM, both);
    WANT(sum == total * (total + 1) / 2);
    char block[1 << 16];
    memset(block, place == 0 ? 'p' : 0, sizeof block);
    MPI_Bcast(block, sizeof block, MPI_CHAR, 0, both);
    WANT(block[sizeof block - 1] == 'p');
    MPI_Comm_free(&both);
    MPI_Comm_disconnect(&other);
}

static void one(const char *program, MPI_Comm comm, int n, const char *role) {
    MPI_Comm children;
    int codes[8];
    char *args[] = {"child", (char *)role, WORDS, NULL};
    WANT(MPI_Comm_spawn(program, args, n, MPI_INFO_NULL, 0, comm, &children, codes) == MPI_SUCCESS);
    for (int i = 0; i < n; i++) WANT(codes[i] == MPI_SUCCESS);
    talk(children, 1, n);
    spawned += n;
}

static void multiple(const char *program) {
    MPI_Comm children;
    MPI_Info info[2];
    char *first[] = {"child", "first", WORDS, NULL}, *second[] = {"child", "second", WORDS, NULL};
    char *commands[] = {(char *)program, (char *)program}, **args[] = {first, second};
    int procs[] = {2, 1}, codes[3];
    for (int i = 0; i < 2; i++) {
        MPI_Info_create(&info[i]);
        MPI_Info_set(info[i], "wdir", "/tmp");
        MPI_Info_set(info[i], "env", i == 0 ? "SPAWNED_AS=first\nSPAWNED_MORE=x \351" : "SPAWNED_AS=second");
    }
    WANT(MPI_Comm_spawn_multiple(2, commands, args, procs, info, 0, MPI_COMM_WORLD, &children, codes) == MPI_SUCCESS);
    talk(children, 1, 3);
    for (int i = 0; i < 2; i++) MPI_Info_free(&info[i]);
    spawned += 3;
}

static void failing(void) {
    MPI_Comm children;
    int codes[2];
    MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
    WANT(MPI_Comm_spawn("/nowhere/program", MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &children, codes) != MPI_SUCCESS);
    MPI_Barrier(MPI_COMM_WORLD);
}

static int child(int argc, char **argv, MPI_Comm parent) {
    int *appnum, flag, parents;
    char dir[256];
    WANT(argc == 4 && !strcmp(argv[1], "child") && !strcmp(argv[3], WORDS));
    MPI_Comm_remote_size(parent, &parents);
    MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_APPNUM, &appnum, &flag);
    if (!strcmp(argv[2], "first") || !strcmp(argv[2], "second")) {
        WANT(size == 3 && flag && *appnum == (rank == 2));
        WANT(!strcmp(argv[2], rank == 2 ? "second" : "first"));
        WANT(getenv("SPAWNED_AS") && !strcmp(getenv("SPAWNED_AS"), argv[2]));
        if (rank != 2) WANT(getenv("SPAWNED_MORE") && !strcmp(getenv("SPAWNED_MORE"), "x \351"));
        WANT(getcwd(dir, sizeof dir) && !strcmp(dir, "/tmp"));
    }
    if (!strcmp(argv[2], "chain")) one(argv[0], MPI_COMM_WORLD, 1, "leaf");
    talk(parent, 0, parents);
    MPI_Finalize();
    return 0;
}

int main(int argc, char **argv) {
    MPI_Comm parent;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    MPI_Comm_get_parent(&parent);
    if (parent != MPI_COMM_NULL) return child(argc, argv, parent);
    const char *step = argc > 1 ? argv[1] : "";
    int all = !*step, total;
    if (all || !strcmp(step, "one")) one(argv[0], MPI_COMM_WORLD, 2, "one"), one(argv[0], MPI_COMM_WORLD, 2, "again");
    if (all || !strcmp(step, "multiple")) multiple(argv[0]);
    if (all || !strcmp(step, "self")) one(argv[0], MPI_COMM_SELF, 1, "self");
    if (all || !strcmp(step, "chain")) one(argv[0], MPI_COMM_WORLD, 1, "chain");
    if (!strcmp(step, "failing")) failing();
    total = spawned;
    if (!strcmp(step, "self")) MPI_Reduce(&spawned, &total, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("spawned ok %d\n", total);
    MPI_Finalize();
    return 0;
}
