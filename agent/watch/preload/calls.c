/* The calls of MPI that the library stands before, in C and in Fortran's spellings. Every word goes on as it came: nothing is
   translated, since a wrapper that translated MPI_IN_PLACE or MPI_BOTTOM has changed sums before (LLNL/mpiP#46). */
#include "pace.h"
#include "wrap.h"

/* MPI_ERR_OTHER in MPICH, for counts that do not fit; and where the program's library has no such call, what mpi4py's own code returns then
   (any code but 0 will do for others, as no other program without the call comes here). */
enum { TOO_LARGE = 15, NO_SUCH_CALL = -1431655766 };

/* Where on the stack this thread's outermost call of MPI stands. MPI calls itself, and Fortran's calls C's: only the outermost counts.
   A call that was left by an exception or a longjmp leaves its place behind; whoever is further up the stack is no call below it. */
static __thread char *outermost;

static int within(void *frame) { return outermost && (char *)frame < outermost; }

static void *narrowed(const char *name, void *caller);

void *first(void **next, const char *name, void *caller) {
	void *f = find(name, caller);
	if (!f)
		f = narrowed(name, caller);
	__atomic_store_n(next, f, __ATOMIC_RELAXED);
	return f;
}

/* An integer argument: Fortran hands over where it stands. */
static int value(word a, enum lang lang) { return lang == LANG_FORTRAN ? *(int *)a : (int)a; }

/* Whether a call came to its end well, so that its communicator is one. Fortran's procedures return nothing: they end the job, or the
   program asked for their errors and looks at them. */
static int succeeded(word result, enum lang lang) { return lang == LANG_FORTRAN || (int)result == 0; }

/* Whether one of n counts is 0: n is the number of ranks. */
static int has_zero(word counts, int n) {
	for (int i = 0; i < n; i++)
		if (((int *)counts)[i] == 0)
			return 1;
	return 0;
}

/* What every wrapper begins with: the program's own call, and out where nobody watches or MPI calls itself. */
#define BEGIN(symbol, n, language)                                              \
	static void *next;                                                      \
	const enum lang lang = language;                                        \
	(void)lang;                                                             \
	word (*call)(P##n) = (word(*)(P##n))resolve(&next, #symbol, HERE);      \
	if (!LIKELY(call))                                                      \
		return NO_SUCH_CALL;                                            \
	char *const frame = __builtin_frame_address(0);                         \
	if (!LIKELY(watching() && !within(frame)))                              \
		return call(A##n);                                              \
	outermost = frame

#define END(result)      \
	outermost = 0;   \
	return result

/* A collective in which all wait for all. Where empty is true it need not wait, on no rank; where slack is true this rank need not. */
#define ALL(symbol, name, n, language, comm, empty, slack)                            \
	EXPORT word symbol(P##n) {                                              \
		BEGIN(symbol, n, language);                                     \
		const int all = known_all(comm, lang);                          \
		const uint64_t from = ticks();                                  \
		if (LIKELY(all))                                                \
			enter_all(CALL_##name, from);                           \
		else                                                            \
			enter_other(CALL_##name, from);                         \
		word result = call(A##n);                                       \
		const uint64_t to = ticks();                                    \
		const int well = succeeded(result, lang);                       \
		const int covers = well && (all || covers_all(comm, lang));     \
		if (LIKELY(covers && !(empty))) { /* else counts may be fewer */ \
			leave_all(from, to, 1, slack);                          \
			END(result);                                            \
		}                                                               \
		left();                                                         \
		if (!well || covers)                                            \
			leave_other(from, to);                                  \
		else                                                            \
			leave_partial(from, to);                                \
		END(result);                                                    \
	}

/* The same without waiting: its request is remembered. */
#define STARTS(symbol, name, n, language, comm, request, empty, slack)                     \
	EXPORT word symbol(P##n) {                                              \
		BEGIN(symbol, n, language);                                     \
		const uint64_t from = ticks();                                  \
		word result = call(A##n);                                       \
		if (succeeded(result, lang) && !(empty) && covers_all(comm, lang))      \
			remember(request_at(request, 0, lang), lang, from, slack); \
		END(result);                                                    \
	}

/* The same for a persistent request, which begins with each MPI_Start. */
#define PERSISTS(symbol, name, n, language, comm, request, empty, slack)                   \
	EXPORT word symbol(P##n) {                                              \
		BEGIN(symbol, n, language);                                     \
		word result = call(A##n);                                       \
		if (succeeded(result, lang) && !(empty) && covers_all(comm, lang))      \
			remember(request_at(request, 0, lang), lang, 0, slack); \
		END(result);                                                    \
	}

/* Another call that waits, which need not be measured each time. */
#define WEIGHED(name, n)                                                              \
	const uint32_t weight = weigh();                                        \
	if (LIKELY(!weight)) {                                                  \
		pass(CALL_##name);                                              \
		word result = call(A##n);                                       \
		passed();                                                       \
		END(result);                                                    \
	}                                                                       \
	const uint64_t from = ticks();                                          \
	enter_other(CALL_##name, from);                                         \
	word result = call(A##n);                                               \
	leave_weighed(from, ticks(), weight);                                   \
	END(result)

#define OTHER(symbol, name, n, language, ...)                                         \
	EXPORT word symbol(P##n) {                                              \
		BEGIN(symbol, n, language);                                     \
		WEIGHED(name, n);                                               \
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
SPELLINGS(ALL, Allgatherv, allgatherv, 8, 9, h, has_zero(e, page->size), 0)
SPELLINGS(ALL, Alltoall, alltoall, 7, 8, g, value(e, lang) == 0, 0)
SPELLINGS(ALL, Alltoallv, alltoallv, 9, 10, i, 0, has_zero(f, page->size))
SPELLINGS(ALL, Reduce_scatter, reduce_scatter, 6, 7, f, has_zero(c, page->size), 0)
SPELLINGS(ALL, Reduce_scatter_block, reduce_scatter_block, 6, 7, f, value(c, lang) == 0, 0)

SPELLINGS(STARTS, Ibarrier, ibarrier, 2, 3, a, b, 0, 0)
SPELLINGS(STARTS, Iallreduce, iallreduce, 7, 8, f, g, value(c, lang) == 0, 0)
SPELLINGS(STARTS, Iallgather, iallgather, 8, 9, g, h, value(e, lang) == 0, 0)
SPELLINGS(STARTS, Ialltoall, ialltoall, 8, 9, g, h, value(e, lang) == 0, 0)
SPELLINGS(STARTS, Iallgatherv, iallgatherv, 9, 10, h, i, has_zero(e, page->size), 0)
SPELLINGS(STARTS, Ialltoallv, ialltoallv, 10, 11, i, j, 0, has_zero(f, page->size))
SPELLINGS(STARTS, Ireduce_scatter, ireduce_scatter, 7, 8, f, g, has_zero(c, page->size), 0)
SPELLINGS(STARTS, Ireduce_scatter_block, ireduce_scatter_block, 7, 8, f, g, value(c, lang) == 0, 0)

SPELLINGS(PERSISTS, Barrier_init, barrier_init, 3, 4, a, c, 0, 0)
SPELLINGS(PERSISTS, Allreduce_init, allreduce_init, 8, 9, f, h, value(c, lang) == 0, 0)
SPELLINGS(PERSISTS, Allgather_init, allgather_init, 9, 10, g, i, value(e, lang) == 0, 0)
SPELLINGS(PERSISTS, Allgatherv_init, allgatherv_init, 10, 11, h, j, has_zero(e, page->size), 0)
SPELLINGS(PERSISTS, Alltoall_init, alltoall_init, 9, 10, g, i, value(e, lang) == 0, 0)
SPELLINGS(PERSISTS, Alltoallv_init, alltoallv_init, 11, 12, i, k, 0, has_zero(f, page->size))
SPELLINGS(PERSISTS, Reduce_scatter_init, reduce_scatter_init, 8, 9, f, h, has_zero(c, page->size), 0)
SPELLINGS(PERSISTS, Reduce_scatter_block_init, reduce_scatter_block_init, 8, 9, f, h, value(c, lang) == 0, 0)

/* Persistent requests begin, n of them from the first on. */
#define BEGINS(symbol, name, n, language, number, requests)                                     \
	EXPORT word symbol(P##n) {                                                        \
		BEGIN(symbol, n, language);                                               \
		for (int i = 0; any_persistent() && i < (number); i++)                    \
			activate(request_at(requests, (size_t)i, lang), lang, ticks());   \
		word result = call(A##n);                                                 \
		END(result);                                                              \
	}
SPELLINGS(BEGINS, Start, start, 1, 2, 1, a)
SPELLINGS(BEGINS, Startall, startall, 2, 3, value(a, lang), b)

#define DROPS(symbol, name, n, language, ...)                                   \
	EXPORT word symbol(P##n) {                                              \
		BEGIN(symbol, n, language);                                     \
		if (any_persistent())                                           \
			drop(request_at(a, 0, lang), lang);                     \
		word result = call(A##n);                                       \
		END(result);                                                    \
	}
SPELLINGS(DROPS, Request_free, request_free, 1, 2, 0)

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

#define WAIT(symbol, name, n, language, ...)                                                                  \
	EXPORT word symbol(P##n) {                                                                      \
		BEGIN(symbol, n, language);                                                             \
		if (LIKELY(!any_remembered())) {                                                        \
			WEIGHED(name, n);                                                               \
		}                                                                                       \
		const uint64_t from = ticks();                                                          \
		word request = request_at(a, 0, lang);                                                  \
		uint64_t when = request ? began(request, lang) : 0;                                     \
		enter_other(CALL_##name, from);                                                         \
		word result = call(A##n);                                                               \
		left_other();                                                                           \
		const int known = when ? forget(request, lang) : 0;                                     \
		if (known)                                                                              \
			started_over(when, from, ticks(), 1, known > 1);                                \
		else                                                                                    \
			leave_other(from, ticks());                                                     \
		END(result);                                                                            \
	}
SPELLINGS(WAIT, Wait, wait, 2, 3, 0)

/* How many of n requests were remembered; they are forgotten, *when is the latest beginning, and *loose is set where this rank need not wait for
   all in one of them. */
static uint64_t forget_all(word requests, int n, enum lang lang, uint64_t *when, int *loose) {
	uint64_t known = 0;
	for (int i = 0; i < n && any_remembered(); i++) {
		word request = request_at(requests, (size_t)i, lang);
		uint64_t t = began(request, lang);
		int one = t ? forget(request, lang) : 0;
		if (!one)
			continue;
		known++;
		*loose |= one > 1;
		if (t > *when)
			*when = t;
	}
	return known;
}

#define WAITALL(symbol, name, n, language, ...)                                                               \
	EXPORT word symbol(P##n) {                                                                      \
		BEGIN(symbol, n, language);                                                             \
		if (LIKELY(!any_remembered())) {                                                        \
			WEIGHED(name, n);                                                               \
		}                                                                                       \
		const uint64_t from = ticks();                                                          \
		int loose = 0;                                                                          \
		uint64_t when = 0, known = forget_all(b, value(a, lang), lang, &when, &loose);          \
		enter_other(CALL_##name, from);                                                         \
		word result = call(A##n);                                                               \
		uint64_t to = ticks();                                                                  \
		left_other();                                                                           \
		if (known && known == (uint64_t)value(a, lang)) {                                       \
			started_over(when, from, to, known, loose);                                     \
		} else {                                                                                \
			leave_other(from, to);                                                          \
			if (known)                                                                      \
				leave_all(to, to, known, 1);                                            \
		}                                                                                       \
		END(result);                                                                            \
	}
SPELLINGS(WAITALL, Waitall, waitall, 3, 4, 0)

/* Requests of which some may be over when the call is: their handles are gone then, so they are copied before it. */
enum { COPIED = 64 };
struct copies {
	word request[COPIED];
	int n;
};

static void copy(struct copies *all, word requests, int n, enum lang lang) {
	all->n = 0;
	if (!any_remembered())
		return;
	if (n > COPIED) {
		page->saw |= SAW_FULL_TABLE;
		return;
	}
	for (; all->n < n; all->n++)
		all->request[all->n] = request_at(requests, (size_t)all->n, lang);
}

/* The i-th of them is over, counted from 1 in Fortran. How long it took says nothing: other requests may have been over first. */
static void one_over(struct copies *all, int i, enum lang lang) {
	i -= lang == LANG_FORTRAN;
	if (i < 0 || i >= all->n || !forget(all->request[i], lang))
		return;
	uint64_t now = ticks();
	leave_all(now, now, 1, 1);
}

static void some_over(struct copies *all, word indices, int n, enum lang lang) {
	for (int i = 0; i < n && i < all->n; i++)
		one_over(all, ((int *)indices)[i], lang);
}

static void every_over(struct copies *all, enum lang lang) {
	for (int i = 0; i < all->n; i++)
		one_over(all, i + (lang == LANG_FORTRAN), lang);
}

#define SOME(symbol, name, n, language, count, requests, waits, after)                                        \
	EXPORT word symbol(P##n) {                                                                      \
		BEGIN(symbol, n, language);                                                             \
		const uint64_t from = waits ? ticks() : 0;                                              \
		struct copies all;                                                                      \
		copy(&all, requests, count, lang);                                                      \
		if (waits)                                                                              \
			enter_other(waits, from);                                                       \
		word result = call(A##n);                                                               \
		if (waits) {                                                                            \
			leave_other(from, ticks());                                                     \
		}                                                                                       \
		after;                                                                                  \
		END(result);                                                                            \
	}
SPELLINGS(SOME, Waitany, waitany, 4, 5, value(a, lang), b, CALL_Waitany, one_over(&all, *(int *)c, lang))
SPELLINGS(SOME, Waitsome, waitsome, 5, 6, value(a, lang), b, CALL_Waitsome, some_over(&all, d, *(int *)c, lang))
SPELLINGS(SOME, Test, test, 3, 4, 1, a, 0, if (*(int *)b) every_over(&all, lang))
SPELLINGS(SOME, Testall, testall, 4, 5, value(a, lang), b, 0, if (*(int *)c) every_over(&all, lang))
SPELLINGS(SOME, Testany, testany, 5, 6, value(a, lang), b, 0, if (*(int *)d) one_over(&all, *(int *)c, lang))
SPELLINGS(SOME, Testsome, testsome, 5, 6, value(a, lang), b, 0, some_over(&all, d, *(int *)c, lang))

/* MPI 4's calls with counts of 64 bits. mpi4py has each as a weak symbol, and finds those here though its library may have none: then the call
   with counts of 32 bits is made, as mpi4py makes it there, and counts that do not fit are an error. */
static int (*size_of)(word, int *), (*rank_of)(word, int *), (*remote_size_of)(word, int *), (*is_inter)(word, int *);

/* How many ranks a communicator has; where others are wanted, those of its other side. 0: it does not tell. */
static int ranks_of(word comm, int others) {
	int inter = 0, n = 0;
	if (others && is_inter && is_inter(comm, &inter) == 0 && inter && remote_size_of)
		remote_size_of(comm, &n);
	else if (size_of)
		size_of(comm, &n);
	return n;
}

/* Whether this rank is a rooted collective's root, which alone reads some of the counts. Between two groups the root is MPI_ROOT there: -3 in
   MPICH, -4 in Open MPI. */
static int is_root(word comm, word root) {
	int inter = 0, rank = -1;
	if (is_inter && is_inter(comm, &inter) == 0 && inter)
		return (int)root == -3 || (int)root == -4;
	return rank_of && rank_of(comm, &rank) == 0 && rank == (int)root;
}

/* Whether a buffer is MPI_IN_PLACE, so that the counts that go with it mean nothing: in MPICH, and in Open MPI and MPI 5's ABI. */
static int in_place(word buffer) { return buffer == -1 || buffer == 1; }

static int shorten(int *to, word from, int n) {
	for (int i = 0; from && i < n; i++) {
		to[i] = (int)((int64_t *)from)[i];
		if (to[i] != ((int64_t *)from)[i])
			return 0;
	}
	return 1;
}

static int has_large_zero(word counts, int n) {
	for (int i = 0; i < n; i++)
		if (((int64_t *)counts)[i] == 0)
			return 1;
	return 0;
}

#define FIT(count, buffer)                                    \
	if (!in_place(buffer) && (count) != (int)(count))     \
	return TOO_LARGE
#define FIT_IF(read, count)                                   \
	if ((read) && (count) != (int)(count))                \
	return TOO_LARGE
#define SHORT_IF(read, array, ranks)                                             \
	int short_##array[(ranks) > 0 ? (ranks) : 1];                            \
	if ((read) && ((ranks) <= 0 || !shorten(short_##array, array, ranks)))   \
		return TOO_LARGE;                                             \
	array = (read) && array ? (word)short_##array : 0
#define SHORT(array, buffer, ranks) SHORT_IF(!in_place(buffer), array, ranks)

#define LARGES(X)                                                                                                                       \
	X(ALL, Allreduce, 6, FIT(c, 0), f, c == 0, 0)                                                                                   \
	X(ALL, Allgather, 7, FIT(b, a); FIT(e, 0), g, e == 0, 0)                                                                        \
	X(ALL, Allgatherv, 8, FIT(b, a); const int n = ranks_of(h, 1); SHORT(e, 0, n); SHORT(f, 0, n), h, has_large_zero(e, page->size), 0) \
	X(ALL, Alltoall, 7, FIT(b, a); FIT(e, 0), g, e == 0, 0)                                                                         \
	X(ALL, Alltoallv, 9, const int n = ranks_of(i, 1); SHORT(b, a, n); SHORT(c, a, n); SHORT(f, 0, n); SHORT(g, 0, n), i, 0,        \
	  has_large_zero(f, page->size))                                                                                                \
	X(ALL, Reduce_scatter, 6, const int n = ranks_of(f, 0); SHORT(c, 0, n), f, has_large_zero(c, page->size), 0)                    \
	X(ALL, Reduce_scatter_block, 6, FIT(c, 0), f, c == 0, 0)                                                                        \
	X(STARTS, Iallreduce, 7, FIT(c, 0), f, g, c == 0, 0)                                                                            \
	X(STARTS, Iallgather, 8, FIT(b, a); FIT(e, 0), g, h, e == 0, 0)                                                                 \
	X(STARTS, Ialltoall, 8, FIT(b, a); FIT(e, 0), g, h, e == 0, 0)                                                                  \
	X(STARTS, Ireduce_scatter_block, 7, FIT(c, 0), f, g, c == 0, 0)                                                                 \
	X(PERSISTS, Allreduce_init, 8, FIT(c, 0), f, h, c == 0, 0)                                                                      \
	X(PERSISTS, Allgather_init, 9, FIT(b, a); FIT(e, 0), g, i, e == 0, 0)                                                           \
	X(PERSISTS, Alltoall_init, 9, FIT(b, a); FIT(e, 0), g, i, e == 0, 0)                                                            \
	X(PERSISTS, Reduce_scatter_block_init, 8, FIT(c, 0), f, h, c == 0, 0)                                                           \
	X(OTHER, Bcast, 5, FIT(b, 0), 0)                                                                                                \
	X(OTHER, Reduce, 7, FIT(c, 0), 0)                                                                                               \
	X(OTHER, Gather, 8, FIT(b, a); FIT_IF(is_root(h, g), e), 0)                                                                     \
	X(OTHER, Scatter, 8, FIT_IF(is_root(h, g), b); FIT(e, d), 0)                                                                    \
	X(OTHER, Gatherv, 9, FIT(b, a); const int n = ranks_of(i, 1); const int here = is_root(i, h); SHORT_IF(here, e, n); SHORT_IF(here, f, n), 0)  \
	X(OTHER, Scatterv, 9, const int n = ranks_of(i, 1); const int here = is_root(i, h); SHORT_IF(here, b, n); SHORT_IF(here, c, n); FIT(f, e), 0) \
	X(OTHER, Alltoallw, 9, const int n = ranks_of(i, 1); SHORT(b, a, n); SHORT(c, a, n); SHORT(f, 0, n); SHORT(g, 0, n), 0)         \
	X(OTHER, Scan, 6, FIT(c, 0), 0)                                                                                                 \
	X(OTHER, Exscan, 6, FIT(c, 0), 0)                                                                                               \
	X(OTHER, Send, 6, FIT(b, 0), 0)                                                                                                 \
	X(OTHER, Ssend, 6, FIT(b, 0), 0)                                                                                                \
	X(OTHER, Recv, 7, FIT(b, 0), 0)                                                                                                 \
	X(OTHER, Sendrecv, 12, FIT(b, 0); FIT(g, 0), 0)                                                                                 \
	X(OTHER, Sendrecv_replace, 9, FIT(b, 0), 0)

#define LARGE(KIND, name, n, narrow, ...)                               \
	static void *plain_##name;                                      \
	static word narrow_##name(P##n) {                               \
		narrow;                                                 \
		return ((word(*)(P##n))plain_##name)(A##n);             \
	}                                                               \
	KIND(MPI_##name##_c, name, n, LANG_C, __VA_ARGS__)
LARGES(LARGE)

/* What is called where the program's library has no call of that name; 0 where there is nothing. */
static void *narrowed(const char *name, void *caller) {
#define ROW(KIND, name, ...) {"MPI_" #name "_c", "MPI_" #name, (void *)narrow_##name, &plain_##name},
	static const struct {
		const char *name, *plain;
		void *narrow, **to;
	} rows[] = {LARGES(ROW)};
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		size_t at = 0;
		while (name[at] && name[at] == rows[i].name[at])
			at++;
		if (name[at] || rows[i].name[at])
			continue;
		size_of = (int (*)(word, int *))find("MPI_Comm_size", caller);
		rank_of = (int (*)(word, int *))find("MPI_Comm_rank", caller);
		remote_size_of = (int (*)(word, int *))find("MPI_Comm_remote_size", caller);
		is_inter = (int (*)(word, int *))find("MPI_Comm_test_inter", caller);
		*rows[i].to = find(rows[i].plain, caller);
		return *rows[i].to ? rows[i].narrow : 0;
	}
	return 0;
}

#define FREES(symbol, name, n, language, ...)                                                                 \
	EXPORT word symbol(P##n) {                                                                      \
		BEGIN(symbol, n, language);                                                             \
		forget_comms();                                                                         \
		word result = call(A##n);                                                               \
		END(result);                                                                            \
	}
SPELLINGS(FREES, Comm_free, comm_free, 1, 2, 0)
SPELLINGS(FREES, Comm_disconnect, comm_disconnect, 1, 2, 0)

#define FINISHES(symbol, n)                                                                             \
	EXPORT word symbol(P##n) {                                                                      \
		static void *next;                                                                      \
		word (*call)(P##n) = (word(*)(P##n))resolve(&next, #symbol, HERE);                      \
		if (!call)                                                                              \
			return NO_SUCH_CALL;                                                            \
		finish();                                                                               \
		word result = call(A##n);                                                               \
		finished();                                                                             \
		return result;                                                                          \
	}
EXPORT word MPI_Finalize(void) {
	static void *next;
	word (*call)(void) = (word(*)(void))resolve(&next, "MPI_Finalize", HERE);
	if (!call)
		return NO_SUCH_CALL;
	finish();
	word result = call();
	finished();
	return result;
}
FINISHES(mpi_finalize_, 1)
FINISHES(mpi_finalize__, 1)
FINISHES(mpi_finalize_f08_, 1)

#define INIT(symbol, n)                                                                                 \
	EXPORT word symbol(P##n) {                                                                      \
		static void *next;                                                                      \
		word (*call)(P##n) = (word(*)(P##n))resolve(&next, #symbol, HERE);                      \
		if (!call)                                                                              \
			return NO_SUCH_CALL;                                                            \
		word result = call(A##n);                                                               \
		begin(HERE);                                                                            \
		return result;                                                                          \
	}
INIT(MPI_Init, 2)
INIT(mpi_init_, 1)
INIT(mpi_init__, 1)
INIT(mpi_init_f08_, 1)
INIT(MPI_Init_thread, 4)
INIT(mpi_init_thread_, 3)
INIT(mpi_init_thread__, 3)
INIT(mpi_init_thread_f08_, 3)
