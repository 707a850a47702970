/* pmi2: a PMI-2 client through a real libpmi2 (Slurm's; Debian's libpmi2-0-dev, link with -lpmi2):
 * everything an MPI library would ask for, and the ring. Rank 0 prints "pmi2 ok". */
#include <slurm/pmi2.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(what) do { if (!(what)) { fprintf(stderr, "rank %d: not true: %s\n", rank, #what); exit(1); } } while (0)

int PMIX_Ring(const char value[], int *rank, int *ranks, char left[], char right[], int maxvalue);

int main(void) {
    int spawned, size, rank = -1, appnum, found, len;
    char id[256], key[64], value[PMI2_MAX_VALLEN], want[64], left[64], right[64];
    CHECK(PMI2_Init(&spawned, &size, &rank, &appnum) == PMI2_SUCCESS);
    CHECK(!spawned && rank >= 0 && rank < size);
    CHECK(PMI2_Job_GetId(id, sizeof id) == PMI2_SUCCESS);

    CHECK(PMI2_Info_GetJobAttr("PMI_process_mapping", value, sizeof value, &found) == PMI2_SUCCESS && found);
    CHECK(!strncmp(value, "(vector,", 8));
    CHECK(PMI2_Info_GetJobAttr("no_such_thing", value, sizeof value, &found) == PMI2_SUCCESS && !found);

    snprintf(key, sizeof key, "key-%d", rank);
    snprintf(want, sizeof want, "value-%d", rank);
    CHECK(PMI2_KVS_Put(key, want) == PMI2_SUCCESS);
    CHECK(PMI2_KVS_Fence() == PMI2_SUCCESS);
    for (int r = 0; r < size; r++) {
        snprintf(key, sizeof key, "key-%d", r);
        snprintf(want, sizeof want, "value-%d", r);
        CHECK(PMI2_KVS_Get(id, r % 2 ? r : PMI2_ID_NULL, key, value, sizeof value, &len) == PMI2_SUCCESS);
        CHECK(!strcmp(value, want) && len == (int)strlen(want));
    }
    CHECK(PMI2_KVS_Get(id, PMI2_ID_NULL, "-NONEXIST-KEY", value, sizeof value, &len) != PMI2_SUCCESS);

    snprintf(key, sizeof key, "attr-%d", rank);
    CHECK(PMI2_Info_PutNodeAttr(key, "here") == PMI2_SUCCESS);
    CHECK(PMI2_Info_GetNodeAttr(key, value, sizeof value, &found, 1) == PMI2_SUCCESS && found && !strcmp(value, "here"));

    snprintf(want, sizeof want, "ring-%d", rank);
    int at, of;
    CHECK(PMIX_Ring(want, &at, &of, left, right, sizeof left) == PMI2_SUCCESS);
    CHECK(at == rank && of == size);
    snprintf(want, sizeof want, "ring-%d", (rank + 1) % size);
    CHECK(!strcmp(right, want));
    snprintf(want, sizeof want, "ring-%d", (rank + size - 1) % size);
    CHECK(!strcmp(left, want));

    if (rank == 0) CHECK(PMI2_Nameserv_publish("service", NULL, "port") == PMI2_SUCCESS);
    CHECK(PMI2_KVS_Fence() == PMI2_SUCCESS);
    CHECK(PMI2_Nameserv_lookup("service", NULL, value, sizeof value) == PMI2_SUCCESS && !strcmp(value, "port"));
    CHECK(PMI2_KVS_Fence() == PMI2_SUCCESS);
    if (rank == 0) CHECK(PMI2_Nameserv_unpublish("service", NULL) == PMI2_SUCCESS);
    if (rank == 0) puts("pmi2 ok");
    CHECK(PMI2_Finalize() == PMI2_SUCCESS);
    return 0;
}
