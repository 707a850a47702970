/* What wrappers are made of: their words, and the call behind them. */
#ifndef MPIUP_WRAP_H
#define MPIUP_WRAP_H

#include "watch.h"

#define EXPORT __attribute__((visibility("default")))
#define HERE __builtin_return_address(0)

__attribute__((noinline, cold)) void *first(void **next, const char *name, void *caller);

static inline void *resolve(void **next, const char *name, void *caller) {
	void *f = __atomic_load_n(next, __ATOMIC_RELAXED);
	return LIKELY(f) ? f : first(next, name, caller);
}

#define P1 word a
#define P2 P1, word b
#define P3 P2, word c
#define P4 P3, word d
#define P5 P4, word e
#define P6 P5, word f
#define P7 P6, word g
#define P8 P7, word h
#define P9 P8, word i
#define P10 P9, word j
#define P11 P10, word k
#define P12 P11, word l
#define P13 P12, word m
#define A1 a
#define A2 A1, b
#define A3 A2, c
#define A4 A3, d
#define A5 A4, e
#define A6 A5, f
#define A7 A6, g
#define A8 A7, h
#define A9 A8, i
#define A10 A9, j
#define A11 A10, k
#define A12 A11, l
#define A13 A12, m

#endif
