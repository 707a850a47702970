/* The page of memory between a rank and its agent. agent/watch/page.go reads what stands here; both change together, with
   PAGE_VERSION. Numbers are in the machine's byte order. The agent makes a file of this form and writes magic, version and flags. The
   process that is watched writes into it who it is, and in which of its descriptors the page itself is: memory of its own, of the same form,
   which nobody else can map for writing any more (F_SEAL_FUTURE_WRITE, Linux 5.1). Where the kernel has no such seal the file is the page.
   The agent trusts nothing of what the rank writes. */
#ifndef MPIUP_WATCH_PAGE_H
#define MPIUP_WATCH_PAGE_H

#include <stdint.h>

enum {
	PAGE_BYTES = 12288,
	PAGE_MAGIC = 0x6d707777, /* "mpww" */
	PAGE_VERSION = 5,
	LEVELS = 4,  /* rings of points, each with 32 times the stride of the one before */
	POINTS = 48, /* of each ring */
	SHIFT = 5,   /* the stride of ring l is 1 << (SHIFT * l) collectives */
	BINS = 2048, /* of time, in which calls of NCCL are counted: 41 s */
	BIN = 20000000, /* ns */
};

enum state { STATE_NONE, STATE_INITIALIZED, STATE_FINALIZED, STATE_UNKNOWN_LIBRARY };
enum flag { FLAG_TICKS = 1 };                     /* of the agent: the processor's counter may be read as a clock */
enum saw { SAW_FULL_TABLE = 1, SAW_THREADS = 2 }; /* of the rank: more requests than are remembered; MPI_THREAD_MULTIPLE */

/* Calls in which a rank may wait, by the names that MPI_ stands before. agent/watch/page.go has them in the same order. */
#define CALLS(X)                                                                                                  \
	X(Barrier) X(Allreduce) X(Allgather) X(Allgatherv) X(Alltoall) X(Alltoallv) X(Alltoallw) X(Reduce_scatter) \
	X(Reduce_scatter_block) X(Bcast) X(Reduce) X(Gather) X(Gatherv) X(Scatter) X(Scatterv) X(Scan) X(Exscan)   \
	X(Send) X(Ssend) X(Recv) X(Sendrecv) X(Sendrecv_replace) X(Probe) X(Mprobe) X(Wait) X(Waitall) X(Waitany)  \
	X(Waitsome) X(Finalize)
#define CALL_OF(name) CALL_##name,
enum call { CALL_NONE, CALLS(CALL_OF) };

/* A point says how long this rank had waited when its seq-th collective over all ranks was over. seq is written last, and is 0 while
   the rest changes. Times are ticks: of the processor's counter, or nanoseconds without FLAG_TICKS. */
struct point {
	uint64_t seq;
	uint64_t waited; /* ticks inside collectives in which all wait for all, summed since MPI_Init */
	uint64_t other;  /* ticks in other calls that wait, summed; of many short ones an estimate */
	uint64_t loose;  /* those of the seq collectives in which this rank need not wait for all: it receives nothing from some */
	uint64_t at;     /* the tick at which the last one was over */
};

struct page {
	uint32_t magic, version, flags;
	uint32_t owner; /* the pid that has it, as that process sees it */
	uint32_t state, saw;
	int32_t rank, size;  /* in MPI_COMM_WORLD */
	uint64_t tick0, ns0; /* ticks and CLOCK_MONOTONIC at MPI_Init */
	uint64_t tick1, ns1; /* both, lately */
	uint64_t seq, waited, other, loose; /* as in a point, now */
	uint64_t entered;    /* the tick at which this rank entered the collective over all, or MPI_Finalize, that it is in; 0: it is in none */
	uint64_t partial;    /* collectives over some ranks only */
	uint64_t elsewhere;  /* the tick at which it entered another call that waits; 0: it is in none */
	uint64_t since;      /* the tick at which it entered the call that it is in; 0: that call is not measured (pace.h) */
	uint32_t call, pad;  /* which; CALL_NONE: it is in none. Of several threads only their collectives over all are told */
	uint64_t passes;     /* calls that were not measured, begun: while it stands still a rank is in the same one */
	uint64_t bin;        /* CLOCK_MONOTONIC / BIN at the last call of NCCL's; 0: there was none */
	uint32_t sealed;     /* of the file: one more than the owner's descriptor of its page; 0: there is none */
	uint8_t reserved[512 - 156];
	struct point points[LEVELS][POINTS];
	uint16_t bins[BINS]; /* calls in each, at its number's rest; those before bin - BINS + 1 are gone, and in those after it there was none */
};

_Static_assert(sizeof(struct page) == PAGE_BYTES, "the page's size");

#endif
