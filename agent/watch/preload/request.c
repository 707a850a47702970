/* Requests of collectives over all ranks that do not block, until they are over; persistent ones until they are freed. Only a wait for those
   tells who others wait for. */
#include "watch.h"

enum { REQUESTS = 1024 }; /* a power of two; a program with more of them at once is not followed further */

static struct {
	word request;
	uint64_t began; /* ticks; 0: it is persistent and has not been started */
	uint32_t used;  /* 1 + lang; 0: free */
	uint32_t persistent, loose;
} table[REQUESTS];
uint32_t active_requests;     /* those that have begun */
uint32_t persistent_requests; /* those that stay */
static uint32_t lock;

/* Only a rank whose threads call MPI at once needs the lock. */
static inline void locked(void) {
	if (!LIKELY(page->saw & SAW_THREADS))
		return;
	while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
		;
}

static inline void unlocked(void) { __atomic_store_n(&lock, 0, __ATOMIC_RELEASE); }

static size_t hash(word request) { return ((size_t)request >> 4 ^ (size_t)request * 31) % REQUESTS; }

/* Where the request stands, looking at the same few places always; REQUESTS where it does not. */
enum { REACH = 16 };

static size_t place(word request, enum lang lang) {
	for (size_t i = 0; i < REACH; i++) {
		size_t at = (hash(request) + i) % REQUESTS;
		if (table[at].used == 1u + lang && table[at].request == request)
			return at;
	}
	return REQUESTS;
}

/* remember takes 0 for when a persistent request began, which activate tells later; loose says that this rank need not wait for all. */
void remember(word request, enum lang lang, uint64_t began, int loose) {
	locked();
	for (size_t i = 0; i < REACH; i++) {
		size_t at = (hash(request) + i) % REQUESTS;
		if (table[at].used)
			continue;
		table[at].request = request;
		table[at].began = began;
		table[at].used = 1u + lang;
		table[at].persistent = !began;
		table[at].loose = loose;
		active_requests += began != 0;
		persistent_requests += !began;
		unlocked();
		return;
	}
	unlocked();
	page->saw |= SAW_FULL_TABLE;
}

/* began says when the request was made, 0 where it is none of those. */
uint64_t began(word request, enum lang lang) {
	locked();
	size_t at = place(request, lang);
	uint64_t when = at < REQUESTS ? table[at].began : 0;
	unlocked();
	return when;
}

/* activate tells when a persistent request began, where it is one of those. */
void activate(word request, enum lang lang, uint64_t now) {
	locked();
	size_t at = place(request, lang);
	if (at < REQUESTS && table[at].persistent && !table[at].began) {
		table[at].began = now;
		active_requests++;
	}
	unlocked();
}

/* forget says whether the request was one of those that have begun: 2 where this rank need not wait for all. A persistent one stays and may
   begin again. */
int forget(word request, enum lang lang) {
	locked();
	size_t at = place(request, lang);
	int known = 0;
	if (at < REQUESTS && table[at].began) {
		known = table[at].loose ? 2 : 1;
		if (!table[at].persistent)
			table[at].used = 0;
		table[at].began = 0;
		active_requests--;
	}
	unlocked();
	return known;
}

/* drop is for a persistent request that is freed. */
void drop(word request, enum lang lang) {
	locked();
	size_t at = place(request, lang);
	if (at < REQUESTS && table[at].persistent) {
		active_requests -= table[at].began != 0;
		persistent_requests--;
		table[at].used = 0;
	}
	unlocked();
}
