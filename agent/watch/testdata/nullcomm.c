/* What a real NCCL says of calls without a communicator, which no GPU is asked for, and its version. */
#include <stddef.h>
#include <stdio.h>

int ncclGetVersion(int *version);
int ncclAllReduce(const void *, void *, size_t, int, int, void *, void *);
int ncclAllGather(const void *, void *, size_t, int, void *, void *);
int ncclReduceScatter(const void *, void *, size_t, int, int, void *, void *);
int ncclBroadcast(const void *, void *, size_t, int, int, void *, void *);
int ncclBcast(void *, size_t, int, int, void *, void *);
int ncclReduce(const void *, void *, size_t, int, int, int, void *, void *);
int ncclSend(const void *, size_t, int, int, void *, void *);
int ncclRecv(void *, size_t, int, int, void *, void *);
int ncclAlltoAll(const void *, void *, size_t, int, void *, void *);
int ncclGather(const void *, void *, size_t, int, int, void *, void *);
int ncclScatter(const void *, void *, size_t, int, int, void *, void *);

int main(void) {
	char b[8];
	int version = 0;
	printf("%d", ncclGetVersion(&version));
	printf(" %d:", version);
	printf(" %d", ncclAllReduce(b, b, 1, 0, 0, 0, 0));
	printf(" %d", ncclAllGather(b, b, 1, 0, 0, 0));
	printf(" %d", ncclReduceScatter(b, b, 1, 0, 0, 0, 0));
	printf(" %d", ncclBroadcast(b, b, 1, 0, 0, 0, 0));
	printf(" %d", ncclBcast(b, 1, 0, 0, 0, 0));
	printf(" %d", ncclReduce(b, b, 1, 0, 0, 0, 0, 0));
	printf(" %d", ncclSend(b, 1, 0, 0, 0, 0));
	printf(" %d", ncclRecv(b, 1, 0, 0, 0, 0));
	printf(" %d", ncclAlltoAll(b, b, 1, 0, 0, 0));
	printf(" %d", ncclGather(b, b, 1, 0, 0, 0, 0));
	printf(" %d\n", ncclScatter(b, b, 1, 0, 0, 0, 0));
	return 0;
}
