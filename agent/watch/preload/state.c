/* Beginning and end: what the library does before main, at MPI_Init and at MPI_Finalize, and the clocks. It is linked against nothing. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>

#include "environment.h"
#include "system.h"
#include "wrap.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* linux/mman.h, Linux 4.14 */
#endif

#ifndef F_ADD_SEALS /* linux/fcntl.h */
#define F_ADD_SEALS 1033
#define F_SEAL_SEAL 1
#define F_SEAL_SHRINK 2
#define F_SEAL_GROW 4
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 16 /* Linux 5.1 */
#endif
#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1 /* linux/memfd.h, Linux 3.17 */
#define MFD_ALLOW_SEALING 2
#endif

struct page *page;

static const uint32_t nobody;
const volatile uint32_t *mine = &nobody, *counts = &nobody;

/* The kernel's own function for the clock, without a libc's, which a program may have replaced. */
static inline uint64_t by(clockid_t clock) {
	struct timespec t = {0, 0};
	if (vdso_clock)
		vdso_clock(clock, &t);
	else
		CALL2(SYS_clock_gettime, clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t nanoseconds(void) { return by(CLOCK_MONOTONIC); }

/* coarse is that clock some milliseconds ago at most: reading it takes a few nanoseconds, whatever Linux keeps time by. */
uint64_t coarse(void) { return by(CLOCK_MONOTONIC_COARSE); }

static struct page *mapped; /* what the agent has made, before MPI_Init or NCCL's first call */
static uint32_t *flags;     /* *mine and *counts */

/* map_page maps the page, once something was found that is measured. It is tried once. */
int map_page(void) {
	static int tried;
	if (tried || !page_file[0])
		return mapped != 0;
	tried = 1;
	long fd = CALL4(SYS_openat, AT_FDCWD, page_file, O_RDWR | O_CLOEXEC | O_NOFOLLOW, 0);
	if (failed(fd))
		return 0;
	long at = -1;
	if (CALL3(SYS_lseek, fd, 0, 2 /* SEEK_END */) == PAGE_BYTES)
		at = CALL6(SYS_mmap, 0, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CALL1(SYS_close, fd);
	if (failed(at))
		return 0;
	struct page *p = (struct page *)at;
	if (p->magic != PAGE_MAGIC || p->version != PAGE_VERSION)
		return 0;
	long two = CALL6(SYS_mmap, 0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (failed(two) || failed(CALL3(SYS_madvise, two, 4096, MADV_WIPEONFORK)))
		return 0;
	flags = (uint32_t *)two;
	mapped = p;
	return 1;
}

/* sealed_page makes the page of this process, which its agent opens by the descriptor that stands in the file. Other processes of the same user may
   read it, and map it for reading; who wants to write to it must write to this process's memory. 0 where the kernel has no such seal. The
   descriptor is a high one: programs count on the low ones. */
static struct page *sealed_page(struct page *file) {
	enum { HIGH = 700 };
	long fd = CALL2(SYS_memfd_create, "mpiup-watch", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (failed(fd))
		return 0;
	long at = -1;
	if (!failed(CALL2(SYS_ftruncate, fd, PAGE_BYTES)))
		at = CALL6(SYS_mmap, 0, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (failed(at) || failed(CALL3(SYS_fcntl, fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL))) {
		CALL1(SYS_close, fd);
		return 0;
	}
	long high = CALL3(SYS_fcntl, fd, F_DUPFD_CLOEXEC, HIGH);
	if (!failed(high)) {
		CALL1(SYS_close, fd);
		fd = high;
	}
	struct page *p = (struct page *)at;
	p->magic = PAGE_MAGIC;
	p->version = PAGE_VERSION;
	p->flags = file->flags;
	p->owner = (uint32_t)CALL1(SYS_getpid, 0);
	__atomic_store_n(&file->sealed, (uint32_t)fd + 1, __ATOMIC_RELEASE);
	return p;
}

/* own gives the page to this process, if it is the first of a rank that comes here. It is tried once in a process. */
static int own(void) {
	static long tried;
	if (page)
		return flags[1] == 1; /* not in a child, whose flags the kernel has wiped */
	long self = CALL1(SYS_getpid, 0);
	if (!mapped || __atomic_exchange_n(&tried, self, __ATOMIC_SEQ_CST) == self)
		return 0;
	uint32_t owner = 0;
	if (!__atomic_compare_exchange_n(&mapped->owner, &owner, (uint32_t)self, 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return 0;
	struct page *sealed = sealed_page(mapped);
	flags[1] = 1;
	__atomic_store_n(&page, sealed ? sealed : mapped, __ATOMIC_RELEASE);
	counts = flags + 1;
	return 1;
}

/* begin_counting says whether this process counts its calls of NCCL: a child does not. */
int begin_counting(void) { return !page && own(); }

/* Whether the processor's counter may be read: a process can forbid it to itself. */
static int counter_is_allowed(void) {
#if defined(__x86_64__)
	int mode = PR_TSC_ENABLE;
	return failed(CALL2(SYS_prctl, PR_GET_TSC, &mode)) || mode == PR_TSC_ENABLE;
#else
	return 1;
#endif
}

/* begin is called when MPI_Init has come to a good end, in whatever language. */
void begin(void) {
	if (!counter_is_allowed() || !own() || page->state != STATE_NONE || *mine == 1)
		return;
	struct page *p = page;
	p->tick0 = ticks();
	p->ns0 = nanoseconds();
	p->tick1 = p->tick0;
	p->ns1 = p->ns0;
	find_library();
	stop_handing_on();
	*flags = 1;
	mine = flags;
}

/* Both clocks, now and then: an agent that reads the page turns ticks into time by them. */
void clocks(void) {
	for (int tries = 0; tries < 3; tries++) {
		uint64_t before = ticks();
		uint64_t ns = nanoseconds();
		uint64_t after = ticks();
		if (after - before > 1 << 16) /* the processor was another's in between */
			continue;
		page->tick1 = before;
		page->ns1 = ns;
		return;
	}
}

void stop_watching(void) {
	mine = &nobody;
	counts = &nobody;
}

/* finish is called as MPI_Finalize is, in which all wait for all, and says whether finished has to be when that is over. */
int finish(void) {
	if (!watching())
		return 0;
	if (!learned) {
		page->state = STATE_UNKNOWN_LIBRARY;
		mine = &nobody;
		return 0;
	}
	enter_all(CALL_Finalize, ticks());
	page->state = STATE_FINALIZED;
	mine = &nobody;
	return 1;
}

void finished(void) {
	if (*counts == 1) /* not in a child that called MPI_Finalize of its own accord */
		left_other();
}

/* A process that forbids itself the processor's counter, or all but four system calls, which forbids that too, is not measured any more. */
WRAPPER(prctl, 5) {
	const int forbids = ((int)a == PR_SET_TSC && b == PR_TSC_SIGSEGV) || ((int)a == PR_SET_SECCOMP && b == 1 /* SECCOMP_MODE_STRICT */);
	if (forbids && page)
		stop_watching();
	return NEXT(prctl, 5)(a, b, c, d, e);
}
