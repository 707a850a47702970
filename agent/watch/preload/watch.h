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

extern struct page *page; /* 0 until MPI_Init, and for good where nobody watches */

/* state.c: beginning, end, clocks. */
int watching(void);
void begin(void *caller);
void finish(void);
void finished(void);
uint64_t ticks(void);
void clocks(void);
void *find(const char *name, void *caller);
void *find_data(const char *name, void *caller);
const char *file_of(void *function);

/* comm.c: which communicators have all ranks. */
int covers_all(word comm, enum lang lang);
int known_all(word comm, enum lang lang);
void forget_comms(void);
void learn_world(void *caller);

/* sum.c: what is written to the page. */
void enter_all(enum call call, uint64_t now);
void enter_other(enum call call, uint64_t now);
void left(void);
void left_other(void);
void leave_all(uint64_t from, uint64_t to, uint64_t times, int loose);
void leave_other(uint64_t from, uint64_t to);
void leave_partial(uint64_t from, uint64_t to);

/* request.c: requests of non-blocking collectives. */
void remember(word request, enum lang lang, uint64_t when);
uint64_t began(word request, enum lang lang);
int forget(word request, enum lang lang);
int any_remembered(void);
word request_at(word pointer, size_t i, enum lang lang);

#endif
