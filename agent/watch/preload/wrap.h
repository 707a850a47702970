/* What wrappers are made of: their words, the call behind them, and the row by which imports.c finds both. Nothing here is exported: a program
   comes to a wrapper only through a slot of its own that imports.c has rewritten, so that the call behind it is known before. */
#ifndef MPIUP_WRAP_H
#define MPIUP_WRAP_H

#include "watch.h"

/* A row is of one symbol that programs import. */
struct row {
	const char *name;
	void *wrapper;
	void **next; /* what the program's own slot had */
};

extern const struct row __start_rows[] __attribute__((visibility("hidden"))); /* ld makes both, of the section's name */
extern const struct row __stop_rows[] __attribute__((visibility("hidden")));

/* WRAPPER begins the definition of symbol's wrapper. */
#define WRAPPER(symbol, n)                                                                                           \
	static void *next_##symbol;                                                                                  \
	static word wrap_##symbol(P##n);                                                                             \
	static const struct row row_##symbol __attribute__((section("rows"), used, aligned(8))) = {#symbol, (void *)wrap_##symbol, &next_##symbol}; \
	static word wrap_##symbol(P##n)

#define NEXT(symbol, n) ((word(*)(P##n))__atomic_load_n(&next_##symbol, __ATOMIC_RELAXED))

#define P0 void
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
#define A0
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

/* The last of n arguments, which in Fortran is the error code's place. */
#define LAST1 a
#define LAST2 b
#define LAST3 c
#define LAST4 d
#define LAST5 e
#define LAST6 f
#define LAST7 g
#define LAST8 h
#define LAST9 i
#define LAST10 j
#define LAST11 k
#define LAST12 l
#define LAST13 m

#endif
