/* Which communicators have all ranks. A handle says nothing to another rank, so that only MPI_COMM_WORLD counts, and what MPI itself
   calls the same group. */
#include "watch.h"

enum { CLASSES = 16, LONGEST_VERSION = 8192 /* MPI_MAX_LIBRARY_VERSION_STRING of MPICH, the longest */ };
enum { MPI_UNEQUAL_ = 3 }; /* MPI_IDENT, CONGRUENT, SIMILAR, UNEQUAL are 0 to 3 in MPICH and Open MPI, and in MPI 5's ABI 201 to 204 */
enum { ABI_UNEQUAL = 204 };

word world;
int handle_bytes;
static int (*compare)(word, word, int *);
static word (*from_fortran)(int);

/* What this thread found of a handle, until a communicator is freed. */
static __thread struct {
	word comm;
	enum lang lang;
	int all;
	uint32_t epoch;
} classes[CLASSES];
static uint32_t epoch = 1;

static int begins(const char *s, const char *with) {
	while (*with && *s == *with)
		s++, with++;
	return !*with;
}

static int has(const char *s, const char *word) {
	for (; *s; s++)
		if (begins(s, word))
			return 1;
	return 0;
}

/* MPI_COMM_WORLD without mpi.h: the address of a variable in Open MPI, 0x44000000 in MPICH and all that share its ABI, and 0x101 in the
   ABI of MPI 5.0, which MPICH 5 has in libmpi_abi. */
static int world_handle(void *caller) {
	const char *file = file_of(find("MPI_Comm_rank", caller));
	if (has(file, "libmpi_abi")) {
		world = 0x101;
		handle_bytes = sizeof(void *);
		return 1;
	}
	int (*version)(char *, int *) = (int (*)(char *, int *))find("MPI_Get_library_version", caller);
	static char text[LONGEST_VERSION + 1];
	int n = 0;
	if (!version || version(text, &n) != 0 || n < 0 || n > LONGEST_VERSION)
		return 0;
	text[n] = 0;
	if (has(text, "Open MPI") || has(text, "Spectrum MPI")) {
		world = (word)find_data("ompi_mpi_comm_world", caller);
		handle_bytes = sizeof(void *);
		return world != 0;
	}
	if (has(text, "MPICH") || has(text, "Intel(R) MPI") || has(text, "MVAPICH") || has(text, "ParaStation")) {
		world = 0x44000000;
		handle_bytes = sizeof(int);
		return 1;
	}
	return 0;
}

void learn_world(void *caller) {
	int (*rank)(word, int *) = (int (*)(word, int *))find("MPI_Comm_rank", caller);
	int (*size)(word, int *) = (int (*)(word, int *))find("MPI_Comm_size", caller);
	int (*threads)(int *) = (int (*)(int *))find("MPI_Query_thread", caller);
	compare = (int (*)(word, word, int *))find("MPI_Comm_compare", caller);
	from_fortran = (word (*)(int))find("MPI_Comm_f2c", caller);
	int r = -1, s = 0, t = 0;
	if (!rank || !size || !threads || !compare || !world_handle(caller) || rank(world, &r) || size(world, &s) || threads(&t)) {
		page->state = STATE_UNKNOWN_LIBRARY;
		return;
	}
	page->rank = r;
	page->size = s;
	if (t == 3 || t == 4096) /* MPI_THREAD_MULTIPLE, and in the ABI of MPI 5.0 */
		page->saw |= SAW_THREADS;
	page->state = STATE_INITIALIZED;
}

/* The word that C has for a communicator. Integers come with any upper half. */
static word in_c(word comm, enum lang lang) {
	if (lang == LANG_FORTRAN)
		return from_fortran && handle_bytes == sizeof(void *) ? from_fortran(*(int *)comm) : *(int *)comm;
	return handle_bytes == sizeof(int) ? (word)(int)comm : comm;
}

static size_t slot(word key) { return ((size_t)key >> 6 ^ (size_t)key) % CLASSES; }

/* The same of a communicator of Fortran's: what covers_all has found. */
int known_copy(word comm) {
	word key = *(int *)comm;
	size_t at = slot(key);
	return classes[at].comm == key && classes[at].lang == LANG_FORTRAN && classes[at].epoch == epoch && classes[at].all;
}

/* Whether a collective over comm is one of all ranks. It is asked when such a call is over, so that comm is valid. */
int covers_all(word comm, enum lang lang) {
	word key = lang == LANG_FORTRAN ? (word)*(int *)comm : in_c(comm, LANG_C);
	if (lang == LANG_C && key == world)
		return 1;
	size_t at = slot(key);
	uint32_t now = __atomic_load_n(&epoch, __ATOMIC_RELAXED);
	if (classes[at].comm == key && classes[at].lang == lang && classes[at].epoch == now)
		return classes[at].all;
	int how = MPI_UNEQUAL_;
	int all = compare(in_c(comm, lang), world, &how) == 0 && how != MPI_UNEQUAL_ && how != ABI_UNEQUAL;
	classes[at].comm = key;
	classes[at].lang = lang;
	classes[at].all = all;
	classes[at].epoch = now;
	return all;
}

/* A communicator that is freed leaves its handle to the next one. */
void forget_comms(void) { __atomic_add_fetch(&epoch, 1, __ATOMIC_RELAXED); }

/* The i-th request of an array, as a word. */
word request_at(word pointer, size_t i, enum lang lang) {
	if (lang == LANG_FORTRAN || handle_bytes == sizeof(int))
		return ((int *)pointer)[i];
	return ((word *)pointer)[i];
}
