/* Requests of non-blocking collectives over all ranks, until they are over. Only a wait for those tells who others wait for. */
#include "watch.h"

enum { REQUESTS = 1024 }; /* a power of two; a program with more of them at once is not followed further */

static struct {
	word request;
	uint64_t began; /* ticks */
	uint32_t used;  /* 1 + lang; 0: free */
} table[REQUESTS];
static uint32_t count;
static uint32_t lock;

static void locked(void) {
	while (__atomic_exchange_n(&lock, 1, __ATOMIC_ACQUIRE))
		;
}

static void unlocked(void) { __atomic_store_n(&lock, 0, __ATOMIC_RELEASE); }

int any_remembered(void) { return __atomic_load_n(&count, __ATOMIC_RELAXED) != 0; }

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

void remember(word request, enum lang lang, uint64_t began) {
	locked();
	for (size_t i = 0; i < REACH; i++) {
		size_t at = (hash(request) + i) % REQUESTS;
		if (table[at].used)
			continue;
		table[at].request = request;
		table[at].began = began;
		table[at].used = 1u + lang;
		count++;
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

/* forget says whether the request was one of those. */
int forget(word request, enum lang lang) {
	locked();
	size_t at = place(request, lang);
	if (at < REQUESTS) {
		table[at].used = 0;
		count--;
	}
	unlocked();
	return at < REQUESTS;
}
