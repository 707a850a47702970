/* pmi2second [COMMAND]: a PMI-2 client through a real libpmi2 (Slurm's; Debian's libpmi2-0-dev, link with -lpmi2) that runs
 * a command by system(3) between PMI2_Init and PMI2_Finalize, and writes "child of rank R ended with CODE". Where PMI2_Init
 * fails it ends with 3. */
#include <slurm/pmi2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

int main(int argc, char **argv) {
    int spawned, size, rank = -1, appnum, len;
    char id[256], key[64], value[PMI2_MAX_VALLEN];
    if (PMI2_Init(&spawned, &size, &rank, &appnum) != PMI2_SUCCESS)
        return 3;
    if (PMI2_Job_GetId(id, sizeof id) != PMI2_SUCCESS)
        return 4;
    if (argc > 1) {
        int status = system(argv[1]);
        printf("child of rank %d ended with %d\n", rank, WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status));
        fflush(stdout);
    }
    snprintf(key, sizeof key, "key-%d", rank);
    if (PMI2_KVS_Put(key, argc > 1 ? "own" : "stolen") != PMI2_SUCCESS || PMI2_KVS_Fence() != PMI2_SUCCESS)
        return 5;
    for (int r = 0; r < size; r++) {
        snprintf(key, sizeof key, "key-%d", r);
        if (PMI2_KVS_Get(id, r, key, value, sizeof value, &len) != PMI2_SUCCESS || strcmp(value, "own") != 0)
            return 6;
    }
    printf("%s %d of %d ends\n", argc > 1 ? "rank" : "inner", rank, size);
    return PMI2_Finalize() == PMI2_SUCCESS ? 0 : 7;
}
