/* The calls of MPI that the library stands before, in C and in Fortran's spellings. Every word goes on as it came: nothing is
   translated, since a wrapper that translated MPI_IN_PLACE or MPI_BOTTOM has changed sums before (LLNL/mpiP#46).

   Nothing that an argument points to is read before MPI has judged it: the call is made first, and what it was given is read when it came to a
   good end. Two things are read before, where MPI itself cannot but read them: Fortran's communicator, which MPI takes by its place, and
   requests, whose handles are gone when the call is over (must_read). */
#include "pace.h"
#include "wrap.h"

/* An integer argument: Fortran hands over where it stands. */
static int value(word a, enum lang lang) { return lang == LANG_FORTRAN ? *(int *)a : (int)a; }

/* How a call ended. Fortran's procedures return nothing; they write the error code where their last argument says, which Fortran 2008 may leave out. */
enum end { FAILED, ENDED_SOMEHOW, SUCCEEDED };

static inline enum end end_of(word result, enum lang lang, word last) {
	if (lang == LANG_C)
		return (int)result == 0 ? SUCCEEDED : FAILED;
	if (!last)
		return ENDED_SOMEHOW;
	return *(int *)last == 0 ? SUCCEEDED : FAILED;
}

/* Whether one of the counts is 0, one for each rank of MPI_COMM_WORLD. */
static int has_zero(word counts) {
	for (int i = 0; i < page->size; i++)
		if (((int *)counts)[i] == 0)
			return 1;
	return 0;
}

static int has_large_zero(word counts) {
	for (int i = 0; i < page->size; i++)
		if (((int64_t *)counts)[i] == 0)
			return 1;
	return 0;
}

/* What every wrapper begins with: the program's own call, and out where nobody watches. */
#define BEGIN(symbol, n, language)                      \
	const enum lang lang = language;                \
	(void)lang;                                     \
	word (*call)(P##n) = NEXT(symbol, n);           \
	if (!LIKELY(watching()))                        \
		return call(A##n)

/* A collective in which all wait for all. Where empty is true it need not wait, on no rank; where slack is true this rank need not. */
#define ALL(symbol, name, n, language, comm, empty, slack)                              \
	WRAPPER(symbol, n) {                                                            \
		BEGIN(symbol, n, language);                                             \
		const int all = known_all(comm, lang);                                  \
		const uint64_t from = ticks();                                          \
		if (LIKELY(all))                                                        \
			enter_all(CALL_##name, from);                                   \
		else                                                                    \
			enter_other(CALL_##name, from);                                 \
		const word result = call(A##n);                                         \
		const uint64_t to = ticks();                                            \
		if (!LIKELY(watching()))                                                \
			return result;                                                  \
		const enum end end = end_of(result, lang, LAST##n);                     \
		const int covers = end != FAILED && (all || covers_all(comm, lang, end == SUCCEEDED)); \
		if (LIKELY(covers && !(empty))) { /* else counts may be fewer */        \
			if (!LIKELY(all))                                               \
				left_other();                                           \
			leave_all(from, to, 1, slack);                                  \
			return result;                                                  \
		}                                                                       \
		left();                                                                 \
		if (end == FAILED || covers)                                            \
			leave_other(from, to);                                          \
		else                                                                    \
			leave_partial(from, to);                                        \
		return result;                                                          \
	}

/* The same without waiting: its request is remembered. */
#define STARTS(symbol, name, n, language, comm, request, empty, slack)                          \
	WRAPPER(symbol, n) {                                                                    \
		BEGIN(symbol, n, language);                                                     \
		const uint64_t from = ticks();                                                  \
		const word result = call(A##n);                                                 \
		const enum end end = end_of(result, lang, LAST##n);                             \
		if (end != FAILED && covers_all(comm, lang, end == SUCCEEDED) && !(empty))      \
			remember(request_at(request, 0, lang), lang, from, slack);              \
		return result;                                                                  \
	}

/* The same for a persistent request, which begins with each MPI_Start. */
#define PERSISTS(symbol, name, n, language, comm, request, empty, slack)                        \
	WRAPPER(symbol, n) {                                                                    \
		BEGIN(symbol, n, language);                                                     \
		const word result = call(A##n);                                                 \
		const enum end end = end_of(result, lang, LAST##n);                             \
		if (end != FAILED && covers_all(comm, lang, end == SUCCEEDED) && !(empty))      \
			remember(request_at(request, 0, lang), lang, 0, slack);                 \
		return result;                                                                  \
	}

/* Another call that waits, which need not be measured each time. */
#define WEIGHED(name, n)                                        \
	const uint32_t weight = weigh();                        \
	if (LIKELY(!weight)) {                                  \
		pass(CALL_##name);                              \
		const word result = call(A##n);                 \
		passed();                                       \
		return result;                                  \
	}                                                       \
	const uint64_t from = ticks();                          \
	enter_other(CALL_##name, from);                         \
	const word result = call(A##n);                         \
	leave_weighed(from, ticks(), weight);                   \
	return result

#define OTHER(symbol, name, n, language, ...)                   \
	WRAPPER(symbol, n) {                                    \
		BEGIN(symbol, n, language);                     \
		WEIGHED(name, n);                               \
	}

/* A call in C, and in Fortran with one argument more, the error code. MPI's modules of Fortran 2008 call a procedure of another name:
   it ends in _f08_ in Open MPI, and in MPICH in _f08ts_ where a buffer may be anything. */
#define SPELLINGS(KIND, name, small, n, more, ...)                              \
	KIND(MPI_##name, name, n, LANG_C, __VA_ARGS__)                          \
	KIND(mpi_##small##_, name, more, LANG_FORTRAN, __VA_ARGS__)             \
	KIND(mpi_##small##__, name, more, LANG_FORTRAN, __VA_ARGS__)            \
	KIND(mpi_##small##_f08_, name, more, LANG_FORTRAN, __VA_ARGS__)         \
	KIND(mpi_##small##_f08ts_, name, more, LANG_FORTRAN, __VA_ARGS__)

/* All ranks give the same count here, so that a call without data waits on none. Where counts differ by rank, a rank that receives
   nothing from another need not wait for it. */
SPELLINGS(ALL, Barrier, barrier, 1, 2, a, 0, 0)
SPELLINGS(ALL, Allreduce, allreduce, 6, 7, f, value(c, lang) == 0, 0)
SPELLINGS(ALL, Allgather, allgather, 7, 8, g, value(e, lang) == 0, 0)
SPELLINGS(ALL, Allgatherv, allgatherv, 8, 9, h, has_zero(e), 0)
SPELLINGS(ALL, Alltoall, alltoall, 7, 8, g, value(e, lang) == 0, 0)
SPELLINGS(ALL, Alltoallv, alltoallv, 9, 10, i, 0, has_zero(f))
SPELLINGS(ALL, Reduce_scatter, reduce_scatter, 6, 7, f, has_zero(c), 0)
SPELLINGS(ALL, Reduce_scatter_block, reduce_scatter_block, 6, 7, f, value(c, lang) == 0, 0)

SPELLINGS(STARTS, Ibarrier, ibarrier, 2, 3, a, b, 0, 0)
SPELLINGS(STARTS, Iallreduce, iallreduce, 7, 8, f, g, value(c, lang) == 0, 0)
SPELLINGS(STARTS, Iallgather, iallgather, 8, 9, g, h, value(e, lang) == 0, 0)
SPELLINGS(STARTS, Ialltoall, ialltoall, 8, 9, g, h, value(e, lang) == 0, 0)
SPELLINGS(STARTS, Iallgatherv, iallgatherv, 9, 10, h, i, has_zero(e), 0)
SPELLINGS(STARTS, Ialltoallv, ialltoallv, 10, 11, i, j, 0, has_zero(f))
SPELLINGS(STARTS, Ireduce_scatter, ireduce_scatter, 7, 8, f, g, has_zero(c), 0)
SPELLINGS(STARTS, Ireduce_scatter_block, ireduce_scatter_block, 7, 8, f, g, value(c, lang) == 0, 0)

SPELLINGS(PERSISTS, Barrier_init, barrier_init, 3, 4, a, c, 0, 0)
SPELLINGS(PERSISTS, Allreduce_init, allreduce_init, 8, 9, f, h, value(c, lang) == 0, 0)
SPELLINGS(PERSISTS, Allgather_init, allgather_init, 9, 10, g, i, value(e, lang) == 0, 0)
SPELLINGS(PERSISTS, Allgatherv_init, allgatherv_init, 10, 11, h, j, has_zero(e), 0)
SPELLINGS(PERSISTS, Alltoall_init, alltoall_init, 9, 10, g, i, value(e, lang) == 0, 0)
SPELLINGS(PERSISTS, Alltoallv_init, alltoallv_init, 11, 12, i, k, 0, has_zero(f))
SPELLINGS(PERSISTS, Reduce_scatter_init, reduce_scatter_init, 8, 9, f, h, has_zero(c), 0)
SPELLINGS(PERSISTS, Reduce_scatter_block_init, reduce_scatter_block_init, 8, 9, f, h, value(c, lang) == 0, 0)

/* Calls by which a program shows that a handle is MPI_COMM_WORLD's, before its first collective. */
#define LEARNS(symbol, name, n, language, comm)                                         \
	WRAPPER(symbol, n) {                                                            \
		BEGIN(symbol, n, language);                                             \
		const word result = call(A##n);                                         \
		if (!learned && end_of(result, lang, LAST##n) != FAILED && watching())  \
			learn(comm, lang);                                              \
		return result;                                                          \
	}
SPELLINGS(LEARNS, Comm_rank, comm_rank, 2, 3, a)
SPELLINGS(LEARNS, Comm_size, comm_size, 2, 3, a)
SPELLINGS(LEARNS, Comm_dup, comm_dup, 2, 3, a)
SPELLINGS(LEARNS, Comm_split, comm_split, 4, 5, a)
SPELLINGS(LEARNS, Comm_split_type, comm_split_type, 5, 6, a)
SPELLINGS(LEARNS, Comm_group, comm_group, 2, 3, a)

/* Persistent requests begin, n of them from the first on. */
#define BEGINS(symbol, name, n, language, number, requests)                                     \
	WRAPPER(symbol, n) {                                                                    \
		BEGIN(symbol, n, language);                                                     \
		if (LIKELY(!any_persistent()))                                                  \
			return call(A##n);                                                      \
		const uint64_t from = ticks();                                                  \
		const word result = call(A##n);                                                 \
		if (end_of(result, lang, LAST##n) == FAILED)                                    \
			return result;                                                          \
		for (int i = 0; i < (number); i++)                                              \
			activate(request_at(requests, (size_t)i, lang), lang, from);            \
		return result;                                                                  \
	}
SPELLINGS(BEGINS, Start, start, 1, 2, 1, a)
SPELLINGS(BEGINS, Startall, startall, 2, 3, value(a, lang), b)

SPELLINGS(OTHER, Bcast, bcast, 5, 6, 0)
SPELLINGS(OTHER, Reduce, reduce, 7, 8, 0)
SPELLINGS(OTHER, Gather, gather, 8, 9, 0)
SPELLINGS(OTHER, Gatherv, gatherv, 9, 10, 0)
SPELLINGS(OTHER, Scatter, scatter, 8, 9, 0)
SPELLINGS(OTHER, Scatterv, scatterv, 9, 10, 0)
SPELLINGS(OTHER, Scan, scan, 6, 7, 0)
SPELLINGS(OTHER, Exscan, exscan, 6, 7, 0)
SPELLINGS(OTHER, Alltoallw, alltoallw, 9, 10, 0)
SPELLINGS(OTHER, Send, send, 6, 7, 0)
SPELLINGS(OTHER, Ssend, ssend, 6, 7, 0)
SPELLINGS(OTHER, Recv, recv, 7, 8, 0)
SPELLINGS(OTHER, Sendrecv, sendrecv, 12, 13, 0)
SPELLINGS(OTHER, Sendrecv_replace, sendrecv_replace, 9, 10, 0)
SPELLINGS(OTHER, Probe, probe, 4, 5, 0)
SPELLINGS(OTHER, Mprobe, mprobe, 5, 6, 0)

enum { SOON = 1 << 16 }; /* ticks */

/* times collectives that began without waiting are over. Who waits at once waits as in a blocking call; who did something else first
   says nothing of when all had arrived. */
static void started_over(uint64_t when, uint64_t from, uint64_t to, uint64_t times, int loose) {
	uint64_t between = from - when;
	if (between < SOON || between < (to - from) / 10)
		leave_all(when, to, times, loose);
	else
		leave_all(from, to, times, 1);
}

/* Whether MPI has to read the requests whatever else it finds: there are some, and no argument is one that it refuses at its sight. All that it
   can find wrong before is a pointer which is 0; statuses may be 0 where that is MPI_STATUS_IGNORE, in Open MPI and in MPI 5's ABI. */
static inline int must_read(int count, word requests, word out, word indices, word statuses) {
	return count > 0 && requests && out && indices && (statuses || handle_bytes == sizeof(void *));
}

#define ONE 1 /* where a call has no such argument */

#define WAIT(symbol, name, n, language, ...)                                                            \
	WRAPPER(symbol, n) {                                                                            \
		BEGIN(symbol, n, language);                                                             \
		if (LIKELY(!any_remembered())) {                                                        \
			WEIGHED(name, n);                                                               \
		}                                                                                       \
		const uint64_t from = ticks();                                                          \
		const word request = must_read(1, a, ONE, ONE, b) ? request_at(a, 0, lang) : 0;         \
		const uint64_t when = request ? began(request, lang) : 0;                               \
		enter_other(CALL_##name, from);                                                         \
		const word result = call(A##n);                                                         \
		const uint64_t to = ticks();                                                            \
		left_other();                                                                           \
		const int known = when ? forget(request, lang) : 0;                                     \
		if (known && end_of(result, lang, LAST##n) != FAILED)                                   \
			started_over(when, from, to, 1, known > 1);                                     \
		else                                                                                    \
			leave_other(from, to);                                                          \
		return result;                                                                          \
	}
SPELLINGS(WAIT, Wait, wait, 2, 3, 0)

/* Requests of which some may be over when the call is. Those of collectives over all are noted before it, with their places; they are few
   (a program has one or two under way), whatever others stand among them. */
enum { NOTED = 16 };
struct notes {
	word request[NOTED];
	int index[NOTED];
	int number;
	uint64_t when; /* the latest beginning */
};

static __attribute__((noinline)) void note(struct notes *all, word requests, int n, enum lang lang) {
	for (int i = 0; i < n; i++) {
		word request = request_at(requests, (size_t)i, lang);
		uint64_t when = began(request, lang);
		if (!when)
			continue;
		if (all->number == NOTED) {
			page->saw |= SAW_FULL_TABLE;
			return;
		}
		all->request[all->number] = request;
		all->index[all->number] = i;
		all->number++;
		if (when > all->when)
			all->when = when;
	}
}

#define WAITALL(symbol, name, n, language, ...)                                                         \
	WRAPPER(symbol, n) {                                                                            \
		BEGIN(symbol, n, language);                                                             \
		if (LIKELY(!any_remembered())) {                                                        \
			WEIGHED(name, n);                                                               \
		}                                                                                       \
		const uint64_t from = ticks();                                                          \
		struct notes all;                                                                       \
		all.number = 0;                                                                              \
		all.when = 0;                                                                           \
		const int count = lang == LANG_C || a ? value(a, lang) : 0;                            \
		if (must_read(count, b, ONE, ONE, c))                                                  \
			note(&all, b, count, lang);                                                    \
		enter_other(CALL_##name, from);                                                         \
		const word result = call(A##n);                                                         \
		const uint64_t to = ticks();                                                            \
		left_other();                                                                           \
		int loose = 0;                                                                          \
		uint64_t known = 0;                                                                     \
		for (int i = 0; i < all.number; i++) {                                                       \
			const int one = forget(all.request[i], lang);                                   \
			known += one != 0;                                                              \
			loose |= one > 1;                                                               \
		}                                                                                       \
		const int well = end_of(result, lang, LAST##n) != FAILED;                               \
		if (well && known && known == (uint64_t)count) {                                       \
			started_over(all.when, from, to, known, loose);                                 \
			return result;                                                                  \
		}                                                                                       \
		leave_other(from, to);                                                                  \
		if (well && known)                                                                      \
			leave_all(to, to, known, 1);                                                    \
		return result;                                                                          \
	}
SPELLINGS(WAITALL, Waitall, waitall, 3, 4, 0)

/* A request is over. How long it took says nothing: other requests may have been over first. */
static void one_over(word request, enum lang lang) {
	if (!forget(request, lang))
		return;
	uint64_t now = ticks();
	leave_all(now, now, 1, 1);
}

/* The request at an index is over, counted from 1 in Fortran; MPI_UNDEFINED is below 0. */
static void index_over(struct notes *all, int i, enum lang lang) {
	i -= lang == LANG_FORTRAN;
	for (int k = 0; k < all->number; k++)
		if (all->index[k] == i)
			one_over(all->request[k], lang);
}

static void some_over(struct notes *all, word indices, int n, enum lang lang) {
	for (int i = 0; all->number > 0 && i < n; i++)
		index_over(all, ((int *)indices)[i], lang);
}

static void every_over(struct notes *all, enum lang lang) {
	for (int k = 0; k < all->number; k++)
		one_over(all->request[k], lang);
}

/* Calls that wait for one or some of several requests. */
#define WAITS_SOME(symbol, name, n, language, out, indices, statuses, after)                            \
	WRAPPER(symbol, n) {                                                                            \
		BEGIN(symbol, n, language);                                                             \
		if (LIKELY(!any_remembered())) {                                                        \
			WEIGHED(name, n);                                                               \
		}                                                                                       \
		const uint64_t from = ticks();                                                          \
		struct notes all;                                                                       \
		all.number = 0;                                                                              \
		all.when = 0;                                                                           \
		const int count = lang == LANG_C || a ? value(a, lang) : 0;                            \
		if (must_read(count, b, out, indices, statuses))                                       \
			note(&all, b, count, lang);                                                    \
		enter_other(CALL_##name, from);                                                         \
		const word result = call(A##n);                                                         \
		leave_other(from, ticks());                                                             \
		if (all.number > 0 && end_of(result, lang, LAST##n) != FAILED) {                             \
			after;                                                                          \
		}                                                                                       \
		return result;                                                                          \
	}
SPELLINGS(WAITS_SOME, Waitany, waitany, 4, 5, c, ONE, d, index_over(&all, *(int *)c, lang))
SPELLINGS(WAITS_SOME, Waitsome, waitsome, 5, 6, c, d, e, some_over(&all, d, *(int *)c, lang))

/* MPI_Test is called in loops: it costs next to nothing while none is under way, and little while one is. */
#define TEST(symbol, name, n, language, ...)                                                            \
	WRAPPER(symbol, n) {                                                                            \
		BEGIN(symbol, n, language);                                                             \
		if (LIKELY(!any_remembered()) || !must_read(1, a, b, ONE, c))                           \
			return call(A##n);                                                              \
		const word request = request_at(a, 0, lang);                                            \
		const word result = call(A##n);                                                         \
		if (end_of(result, lang, LAST##n) != FAILED && *(int *)b)                               \
			one_over(request, lang);                                                        \
		return result;                                                                          \
	}
SPELLINGS(TEST, Test, test, 3, 4, 0)

#define TESTS_SOME(symbol, name, n, language, out, indices, statuses, after)                            \
	WRAPPER(symbol, n) {                                                                            \
		BEGIN(symbol, n, language);                                                             \
		if (LIKELY(!any_remembered()))                                                          \
			return call(A##n);                                                              \
		struct notes all;                                                                       \
		all.number = 0;                                                                              \
		all.when = 0;                                                                           \
		const int count = lang == LANG_C || a ? value(a, lang) : 0;                            \
		if (must_read(count, b, out, indices, statuses))                                       \
			note(&all, b, count, lang);                                                    \
		const word result = call(A##n);                                                         \
		if (all.number > 0 && end_of(result, lang, LAST##n) != FAILED) {                             \
			after;                                                                          \
		}                                                                                       \
		return result;                                                                          \
	}
SPELLINGS(TESTS_SOME, Testall, testall, 4, 5, c, ONE, d, if (*(int *)c) every_over(&all, lang))
SPELLINGS(TESTS_SOME, Testany, testany, 5, 6, c, d, e, if (*(int *)d) index_over(&all, *(int *)c, lang))
SPELLINGS(TESTS_SOME, Testsome, testsome, 5, 6, c, d, e, some_over(&all, d, *(int *)c, lang))

#define DROPS(symbol, name, n, language, ...)                                                           \
	WRAPPER(symbol, n) {                                                                            \
		BEGIN(symbol, n, language);                                                             \
		if (LIKELY(!any_persistent()) || !a)                                                    \
			return call(A##n);                                                              \
		const word request = request_at(a, 0, lang);                                            \
		const word result = call(A##n);                                                         \
		if (end_of(result, lang, LAST##n) != FAILED)                                            \
			drop(request, lang);                                                            \
		return result;                                                                          \
	}
SPELLINGS(DROPS, Request_free, request_free, 1, 2, 0)

/* MPI 4's calls with counts of 64 bits, in C; they have no wrapper where the program's library has none of them. */
#define LARGES(X)                                                                               \
	X(ALL, Allreduce, 6, f, c == 0, 0)                                                      \
	X(ALL, Allgather, 7, g, e == 0, 0)                                                      \
	X(ALL, Allgatherv, 8, h, has_large_zero(e), 0)                                          \
	X(ALL, Alltoall, 7, g, e == 0, 0)                                                       \
	X(ALL, Alltoallv, 9, i, 0, has_large_zero(f))                                           \
	X(ALL, Reduce_scatter, 6, f, has_large_zero(c), 0)                                      \
	X(ALL, Reduce_scatter_block, 6, f, c == 0, 0)                                           \
	X(STARTS, Iallreduce, 7, f, g, c == 0, 0)                                               \
	X(STARTS, Iallgather, 8, g, h, e == 0, 0)                                               \
	X(STARTS, Ialltoall, 8, g, h, e == 0, 0)                                                \
	X(STARTS, Ireduce_scatter_block, 7, f, g, c == 0, 0)                                    \
	X(PERSISTS, Allreduce_init, 8, f, h, c == 0, 0)                                         \
	X(PERSISTS, Allgather_init, 9, g, i, e == 0, 0)                                         \
	X(PERSISTS, Alltoall_init, 9, g, i, e == 0, 0)                                          \
	X(PERSISTS, Reduce_scatter_block_init, 8, f, h, c == 0, 0)                              \
	X(OTHER, Bcast, 5, 0)                                                                   \
	X(OTHER, Reduce, 7, 0)                                                                  \
	X(OTHER, Gather, 8, 0)                                                                  \
	X(OTHER, Scatter, 8, 0)                                                                 \
	X(OTHER, Gatherv, 9, 0)                                                                 \
	X(OTHER, Scatterv, 9, 0)                                                                \
	X(OTHER, Alltoallw, 9, 0)                                                               \
	X(OTHER, Scan, 6, 0)                                                                    \
	X(OTHER, Exscan, 6, 0)                                                                  \
	X(OTHER, Send, 6, 0)                                                                    \
	X(OTHER, Ssend, 6, 0)                                                                   \
	X(OTHER, Recv, 7, 0)                                                                    \
	X(OTHER, Sendrecv, 12, 0)                                                               \
	X(OTHER, Sendrecv_replace, 9, 0)
#define LARGE(KIND, name, n, ...) KIND(MPI_##name##_c, name, n, LANG_C, __VA_ARGS__)
LARGES(LARGE)

#define FREES(symbol, name, n, language, ...)                   \
	WRAPPER(symbol, n) {                                    \
		BEGIN(symbol, n, language);                     \
		forget_comms();                                 \
		return call(A##n);                              \
	}
SPELLINGS(FREES, Comm_free, comm_free, 1, 2, 0)
SPELLINGS(FREES, Comm_disconnect, comm_disconnect, 1, 2, 0)

/* From the call of MPI_Finalize on nothing is measured: a callback of an attribute may call MPI in there. */
#define FINISHES(symbol, n)                                     \
	WRAPPER(symbol, n) {                                    \
		const int was = finish();                       \
		const word result = NEXT(symbol, n)(A##n);      \
		if (was)                                        \
			finished();                             \
		return result;                                  \
	}
FINISHES(MPI_Finalize, 0)
FINISHES(mpi_finalize_, 1)
FINISHES(mpi_finalize__, 1)
FINISHES(mpi_finalize_f08_, 1)

#define INIT(symbol, n, language)                                               \
	WRAPPER(symbol, n) {                                                    \
		const word result = NEXT(symbol, n)(A##n);                      \
		if (end_of(result, language, LAST##n) != FAILED)                \
			begin();                                                \
		return result;                                                  \
	}
INIT(MPI_Init, 2, LANG_C)
INIT(mpi_init_, 1, LANG_FORTRAN)
INIT(mpi_init__, 1, LANG_FORTRAN)
INIT(mpi_init_f08_, 1, LANG_FORTRAN)
INIT(MPI_Init_thread, 4, LANG_C)
INIT(mpi_init_thread_, 3, LANG_FORTRAN)
INIT(mpi_init_thread__, 3, LANG_FORTRAN)
INIT(mpi_init_thread_f08_, 3, LANG_FORTRAN)
