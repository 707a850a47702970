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

extern struct page *page;             /* 0 where nobody watches */
extern const volatile uint32_t *mine; /* 1 between MPI_Init and MPI_Finalize in the process that has the page. A child finds 0 after fork, as the kernel wipes it: it writes nothing */

#define LIKELY(x) __builtin_expect(!!(x), 1)

static inline int watching(void) { return *mine == 1; }

extern const volatile uint32_t *counts; /* likewise, in the process that counts its calls of NCCL there */

/* state.c: beginning, end, clocks. */
int map_page(void);
int before_begin(void);
void begin(void);
int begin_counting(void);
uint64_t coarse(void);
int finish(void);
void finished(void);
void stop_watching(void);
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

/* imports.c: what the process's objects import, and what they define. */
enum { FOUND_MPI = 1, FOUND_NCCL = 2 };
int rewrite_imports(void);
void rewrite_new_imports(void);
void *function_beside(const void *function, const char *name);
void *vdso_function(uintptr_t vdso, const char *name);
uintptr_t page_bytes(void); /* environment.c: the size of a page of memory */

/* MPI's own functions, behind any tool that measures; all 0 where nobody knows which library they are of. */
struct mpi_library {
	void *compare, *rank, *size, *thread_level, *from_fortran, *open_mpi_world;
	int abi; /* it has the ABI of MPI 5.0 */
};
extern struct mpi_library library;

/* comm.c: which communicators have all ranks. */
extern int learned;      /* the program has used MPI_COMM_WORLD, and page->rank and size are known */
extern word world;       /* as C has it */
extern int world_number; /* as Fortran has it */
extern int handle_bytes; /* of a communicator and of a request in C */
int covers_all(word comm, enum lang lang, int may_ask);
int is_known(word comm, enum lang lang);
void forget_comms(void);
void find_library(void);
void learn(word comm, enum lang lang);

/* Whether comm is MPI_COMM_WORLD, which is a valid one as long as a rank is watched. */
static inline int is_world(word comm, enum lang lang) {
	if (lang == LANG_FORTRAN)
		return *(int *)comm == world_number;
	return comm == world || (handle_bytes == sizeof(int) && (int)comm == (int)world); /* integers come with any upper half */
}

/* Whether comm is known to have all ranks, without asking MPI: before a call nobody knows that comm is valid. Fortran's is a place that MPI
   reads before anything else. */
static inline int known_all(word comm, enum lang lang) {
	return LIKELY(learned) && (LIKELY(is_world(comm, lang)) || is_known(comm, lang));
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
uint64_t began(word request, enum lang lang);
int forget(word request, enum lang lang);
word request_at(word pointer, size_t i, enum lang lang);

extern uint32_t active_requests, persistent_requests;
static inline int any_remembered(void) { return __atomic_load_n(&active_requests, __ATOMIC_RELAXED) != 0; }
static inline int any_persistent(void) { return __atomic_load_n(&persistent_requests, __ATOMIC_RELAXED) != 0; }

#endif
