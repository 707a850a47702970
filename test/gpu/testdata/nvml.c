/* A stand-in for NVIDIA's libnvidia-ml.so.1, of a driver so old (R418) that it knows neither MIG nor what
 * is at the other end of an NVLink: two GPUs at 0000:17:00.0 and 0000:65:00.0, joined by four NVLinks. */
#include <stdio.h>
#include <string.h>

typedef struct { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; } pci_info;
typedef struct { unsigned long long total, free, used; } memory;

static const char *address[] = {"00000000:17:00.0", "00000000:65:00.0"};
static int gpus[] = {0, 1};
#define INDEX(device) (*(int *)(device))

enum { SUCCESS = 0, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, INVALID_ARGUMENT = 2 };

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int result) { return result == SUCCESS ? "Success" : "Failure"; }

static int text(char *to, unsigned size, const char *value) {
    if (strlen(value) >= size) return INSUFFICIENT_SIZE;
    strcpy(to, value);
    return SUCCESS;
}

int nvmlSystemGetDriverVersion(char *to, unsigned size) { return text(to, size, "418.226.00"); }
int nvmlSystemGetCudaDriverVersion(int *version) { *version = 10010; return SUCCESS; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (index > 1) return INVALID_ARGUMENT;
    *device = &gpus[index];
    return SUCCESS;
}

int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device) {
    for (int i = 0; i < 2; i++)
        if (strcmp(id, address[i]) == 0 || strcmp(id, address[i] + 4) == 0) {
            *device = &gpus[i];
            return SUCCESS;
        }
    return NOT_FOUND;
}

static int pci(pci_info *info, int index) {
    memset(info, 0, sizeof *info);
    strcpy(info->bus_id, address[index]);
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(void *device, pci_info *info) { return pci(info, INDEX(device)); }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, pci_info *info) { return pci(info, 1 - INDEX(device)); }

int nvmlDeviceGetNvLinkState(void *device, unsigned link, int *state) {
    *state = link < 4;
    return link < 6 ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetUUID(void *device, char *to, unsigned size) {
    return text(to, size, INDEX(device) ? "GPU-0000000b" : "GPU-0000000a");
}

int nvmlDeviceGetName(void *device, char *to, unsigned size) { return text(to, size, "Tesla V100-SXM2-32GB"); }
int nvmlDeviceGetMinorNumber(void *device, unsigned *minor) { *minor = INDEX(device); return SUCCESS; }

int nvmlDeviceGetMemoryInfo(void *device, memory *m) {
    m->total = 32ull << 30, m->free = 31ull << 30, m->used = 1ull << 30;
    return SUCCESS;
}

int nvmlDeviceGetPersistenceMode(void *device, int *mode) { *mode = 1; return SUCCESS; }
int nvmlDeviceGetEccMode(void *device, int *now, int *later) { *now = *later = 1; return SUCCESS; }

int nvmlDeviceGetUtilizationRates(void *device, unsigned rates[2]) { rates[0] = 50 + INDEX(device), rates[1] = 10; return SUCCESS; }
int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) { *milliwatts = 250500; return SUCCESS; }
int nvmlDeviceGetTemperature(void *device, int sensor, unsigned *celsius) { *celsius = 41; return SUCCESS; }

/* Errors are as /dev/shm/ecc0 or ecc1 says, and each that is told of makes /dev/shm/told a byte longer. */
int nvmlDeviceGetTotalEccErrors(void *device, int type, int counter, unsigned long long *n) {
    FILE *f = fopen(INDEX(device) ? "/dev/shm/ecc1" : "/dev/shm/ecc0", "r");
    *n = 0;
    if (f) {
        if (fscanf(f, "%llu", n) != 1) *n = 0;
        fclose(f);
    }
    if ((f = fopen("/dev/shm/told", "a"))) {
        fputc('x', f);
        fclose(f);
    }
    return SUCCESS;
}
