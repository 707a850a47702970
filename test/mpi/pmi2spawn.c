/* pmi2spawn: PMI2_Job_Spawn through a real libpmi2 (Slurm's; link with -lpmi2). Rank 0 asks for two processes
 * of this program and one more with other arguments, and leaves a key for them. Each child prints a line of
 * what it found, the parent "spawned" and the job. */
#include <slurm/pmi2.h>
#include <stdio.h>
#include <stdlib.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "rank %d: not true: %s\n", rank, #what); exit(1); } } while (0)

int main(int argc, char **argv) {
    int spawned, size, rank = -1, appnum, len, errors[3];
    char id[256], value[PMI2_MAX_VALLEN], job[256];
    CHECK(PMI2_Init(&spawned, &size, &rank, &appnum) == PMI2_SUCCESS);
    CHECK(PMI2_Job_GetId(id, sizeof id) == PMI2_SUCCESS);
    if (spawned) {
        CHECK(PMI2_KVS_Get(id, PMI2_ID_NULL, "PARENT_ROOT_PORT_NAME", value, sizeof value, &len) == PMI2_SUCCESS);
        printf("child %d of %d, program %d, %s, found %s\n", rank, size, appnum, argc > 1 ? argv[1] : "", value);
    } else if (rank == 0) {
        const char *programs[] = {argv[0], argv[0]};
        const char *first[] = {"--two w\366rds", NULL}, *second[] = {"other", NULL}, **arguments[] = {first, second};
        int counts[] = {1, 1}, procs[] = {2, 1}, infos[] = {0, 0};
        MPID_Info key = {.key = "PARENT_ROOT_PORT_NAME", .value = "tag#0$x$"};
        const struct MPID_Info *keys[] = {&key};
        CHECK(PMI2_Job_Spawn(2, programs, counts, arguments, procs, infos, NULL, 1, keys, job, sizeof job, errors) == PMI2_SUCCESS);
        printf("spawned %s\n", job);
    }
    CHECK(PMI2_KVS_Fence() == PMI2_SUCCESS);
    CHECK(PMI2_Finalize() == PMI2_SUCCESS);
    return 0;
}
