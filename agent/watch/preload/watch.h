/* What the parts of the library share. */
#ifndef MPIUP_WATCH_H
#define MPIUP_WATCH_H

#include <stddef.h>
#include <stdint.h>

#include "page.h"

/* An argument of MPI, whatever its type: MPI passes integers, handles and pointers only, each in a word of its own, on amd64 and
   arm64. Words go on as they came. */
typedef long word;

enum lang { LANG_C, LANG_FORTRAN };

extern struct page *page;        /* 0 until MPI_Init or the first call of NCCL's, and for good where nobody watches */
extern const volatile uint32_t *mine; /* 1 in the process that has the page. A child finds 0 after fork, as the kernel wipes it: it writes nothing */

#define LIKELY(x) __builtin_expect(!!(x), 1)

static inline int watching(void) { return *mine == 1; }

extern const volatile uint32_t *counts; /* likewise, in the process that counts its calls of NCCL there */

/* state.c: beginning, end, clocks. */
void begin(void *caller);
int begin_counting(void);
uint64_t coarse(void);
void finish(void);
void finished(void);
uint64_t nanoseconds(void);
void clocks(void);

static inline uint64_t ticks(void) {
#if defined(__x86_64__)
	if (LIKELY(page->flags & FLAG_TICKS)) {
		uint32_t low, high;
		__asm__ volatile("rdtsc" : "=a"(low), "=d"(high));
		return (uint64_t)high << 32 | low;
	}
#elif defined(__aarch64__)
	if (LIKELY(page->flags & FLAG_TICKS)) {
		uint64_t t;
		__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
		return t;
	}
#endif
	return nanoseconds();
}
void *find(const char *name, void *caller);
void *find_data(const char *name, void *caller);
const char *file_of(void *function);

/* comm.c: which communicators have all ranks. */
extern word world;       /* as C has it */
extern int handle_bytes; /* of a communicator and of a request in C */
int covers_all(word comm, enum lang lang);
int known_copy(word comm);
void forget_comms(void);
void learn_world(void *caller);

/* Whether comm is known to have all ranks, without asking MPI: before a call nobody knows that comm is valid. */
static inline int known_all(word comm, enum lang lang) {
	if (lang == LANG_FORTRAN)
		return known_copy(comm);
	return comm == world || (handle_bytes == sizeof(int) && (int)comm == (int)world); /* integers come with any upper half */
}

/* sum.c: what is written to the page. */
uint64_t ticks_a_microsecond(void); /* 0: not known yet */
void enter_all(enum call call, uint64_t now);
void enter_other(enum call call, uint64_t now);
void left(void);
void left_other(void);
void leave_all(uint64_t from, uint64_t to, uint64_t times, int loose);
void leave_other(uint64_t from, uint64_t to);
void leave_partial(uint64_t from, uint64_t to);

/* request.c: requests of collectives that do not block. */
void remember(word request, enum lang lang, uint64_t when, int loose);
void activate(word request, enum lang lang, uint64_t now);
void drop(word request, enum lang lang);
int any_persistent(void);
uint64_t began(word request, enum lang lang);
int forget(word request, enum lang lang);
int any_remembered(void);
word request_at(word pointer, size_t i, enum lang lang);

#endif
