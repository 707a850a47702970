/* What a rank writes to its page. A rank of one thread writes plainly; threads that call MPI at once add with locked instructions. */
#include "watch.h"

enum { OFTEN = 1 << 26 }; /* ticks: some 30 ms of a processor of 2 GHz, 3 s of a counter of 24 MHz */

static uint64_t due;   /* the tick at which both clocks are looked at again: an agent turns ticks into time by them */
static uint64_t micro; /* ticks in a microsecond, one at least */

uint64_t ticks_a_microsecond(void) { return micro; }

static __attribute__((noinline, cold)) void look(uint64_t now) {
	clocks();
	due = now + OFTEN;
	uint64_t ns = page->ns1 - page->ns0;
	micro = ns < 1000 ? 1 : (page->tick1 - page->tick0) / (ns / 1000);
	if (micro == 0)
		micro = 1;
}

static uint64_t add(uint64_t *sum, uint64_t n) {
	if (page->saw & SAW_THREADS)
		return __atomic_add_fetch(sum, n, __ATOMIC_RELAXED);
	return *sum += n;
}

static void enter(enum call call, uint64_t now) {
	if (!LIKELY(now < due)) /* it may stay in the call for ever */
		look(now);
	__atomic_store_n(&page->since, now, __ATOMIC_RELAXED);
	__atomic_store_n(&page->call, call, __ATOMIC_RELAXED);
}

void enter_all(enum call call, uint64_t now) {
	enter(call, now);
	__atomic_store_n(&page->entered, now, __ATOMIC_RELAXED);
}

void enter_other(enum call call, uint64_t now) {
	__atomic_store_n(&page->elsewhere, now, __ATOMIC_RELAXED);
	if (!(page->saw & SAW_THREADS))
		enter(call, now);
}

void left_other(void) {
	__atomic_store_n(&page->elsewhere, 0, __ATOMIC_RELAXED);
	if (!(page->saw & SAW_THREADS))
		__atomic_store_n(&page->call, CALL_NONE, __ATOMIC_RELAXED);
}

void left(void) {
	__atomic_store_n(&page->entered, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&page->elsewhere, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&page->call, CALL_NONE, __ATOMIC_RELAXED);
}

static inline void point(struct page *p, unsigned level, uint64_t seq, uint64_t now) {
	struct point *at = &p->points[level][(seq >> (SHIFT * level)) % POINTS];
	__atomic_store_n(&at->seq, 0, __ATOMIC_RELEASE);
	__atomic_thread_fence(__ATOMIC_RELEASE);
	at->waited = p->waited;
	at->other = p->other;
	at->loose = p->loose;
	at->at = now;
	__atomic_store_n(&at->seq, seq, __ATOMIC_RELEASE);
}

/* times collectives of all ranks are over, in which this rank was from one tick to another. Each is a point of the finest ring, one in
   32 of the next, and so on. */
void leave_all(uint64_t from, uint64_t to, uint64_t times, int loose) {
	struct page *p = page;
	add(&p->waited, to - from);
	if (loose)
		add(&p->loose, 1);
	uint64_t last = add(&p->seq, times);
	for (uint64_t seq = last - times + 1; seq <= last; seq++) {
		point(p, 0, seq, to);
		for (unsigned level = 1; level < LEVELS && seq % (1ull << (SHIFT * level)) == 0; level++)
			point(p, level, seq, to);
	}
	if (!LIKELY(to < due)) /* a rank that polls, or whose threads call MPI at once, enters nothing */
		look(to);
	__atomic_store_n(&p->entered, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&p->call, CALL_NONE, __ATOMIC_RELAXED);
}

void leave_other(uint64_t from, uint64_t to) {
	add(&page->other, to - from);
	left_other();
}

void leave_partial(uint64_t from, uint64_t to) {
	add(&page->partial, 1);
	leave_other(from, to);
}
