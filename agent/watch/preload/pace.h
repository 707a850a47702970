/* Which calls are measured, of those that are no collectives of all. They only tell how long a rank waited besides, so that not each has to
   be measured: to read the clock twice takes as long as a short message. Where many short calls follow each other closely, one in
   OF is measured, by chance, and counts for OF of them: the sum is right on average. Where a long one, or a long time between them, shows
   that this was no such place, all are measured again, and for twice as long before that ends: what waits regularly is measured exactly. */
#ifndef MPIUP_WATCH_PACE_H
#define MPIUP_WATCH_PACE_H

#include "watch.h"

enum {
	OF_BITS = 5,
	OF = 1 << OF_BITS,
	CLOSE = 4,       /* µs from the end of a call to the next one's: they follow closely */
	FAR = 4 * OF * CLOSE, /* and where one in OF is measured */
	FEWEST = 64,     /* close calls before that, */
	MOST = 1 << 16,  /* and at most */
	OVER = 64,       /* times as many, all close, halve that */
};

struct pace {
	uint32_t run, need; /* calls that followed closely, and how many it takes */
	uint32_t chance;
	uint64_t last; /* the tick at which the last measured one was over */
};
extern __thread struct pace pace;

/* weigh says for how many the call counts that now begins; 0: it is not measured. */
static inline uint32_t weigh(void) {
	if (LIKELY(pace.run >= pace.need)) {
		pace.chance = pace.chance * 1664525u + 1013904223u; /* Knuth's and Lewis's, in Numerical Recipes, 7.1: its upper bits are good */
		return LIKELY(pace.chance >> (32 - OF_BITS)) ? 0 : OF;
	}
	return 1;
}

/* pass begins a call that is not measured, and passed ends it. */
static inline void pass(enum call call) {
	__atomic_store_n(&page->since, 0, __ATOMIC_RELAXED);
	__atomic_store_n(&page->passes, page->passes + 1, __ATOMIC_RELAXED);
	__atomic_store_n(&page->call, call, __ATOMIC_RELAXED);
}

static inline void passed(void) { __atomic_store_n(&page->call, CALL_NONE, __ATOMIC_RELAXED); }

/* leave_weighed ends one that is. */
void leave_weighed(uint64_t from, uint64_t to, uint32_t weight);

#endif
