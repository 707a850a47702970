/* The calls of NCCL by which a step of a training shows. They return before anything is done, so that how long they take says nothing:
   they are only counted, in bins of time. RCCL has the same names, and AllToAll in its own spelling. */
#include "wrap.h"

static __attribute__((noinline)) void turn(uint64_t bin) {
	uint64_t from = page->bin;
	if (bin < from) /* another thread was faster */
		return;
	if (bin - from > BINS)
		from = bin - BINS;
	while (from < bin) /* no loop that a compiler calls memset for */
		__atomic_store_n(&page->bins[++from % BINS], 0, __ATOMIC_RELAXED);
	__atomic_store_n(&page->bin, bin, __ATOMIC_RELEASE);
}

/* Threads that call at once may lose a count: that is no reason to lock. */
static inline void count(void) {
	if (!LIKELY(*counts == 1) && !begin_counting())
		return;
	uint64_t bin = coarse() / BIN;
	if (!LIKELY(bin == page->bin))
		turn(bin);
	uint16_t *at = &page->bins[bin % BINS], n = __atomic_load_n(at, __ATOMIC_RELAXED);
	if (LIKELY(n != UINT16_MAX))
		__atomic_store_n(at, n + 1, __ATOMIC_RELAXED);
}

#define COUNTED(name, n)                                \
	WRAPPER(nccl##name, n) {                        \
		count();                                \
		return NEXT(nccl##name, n)(A##n);       \
	}
COUNTED(AllReduce, 7)
COUNTED(AllGather, 6)
COUNTED(ReduceScatter, 7)
COUNTED(Broadcast, 7)
COUNTED(Bcast, 6)
COUNTED(Reduce, 8)
COUNTED(Send, 6)
COUNTED(Recv, 6)
COUNTED(AlltoAll, 6)
COUNTED(AllToAll, 6)
COUNTED(Gather, 7)
COUNTED(Scatter, 7)
