/* Which communicators have all ranks. A handle says nothing to another rank, so that only MPI_COMM_WORLD counts, and what MPI itself
   calls the same group.

   MPI is asked only while the program is between MPI_Init and MPI_Finalize, by PMPI_'s names, and only about communicators that the program
   has used well. That holds for MPI_COMM_WORLD too: whose handles a library has is a guess until the program itself has passed that handle,
   since there are layers that say to be another library and have handles of their own. */
#include "watch.h"

enum { MPI_UNEQUAL_ = 3 }; /* MPI_IDENT, CONGRUENT, SIMILAR, UNEQUAL are 0 to 3 in MPICH and Open MPI, and in MPI 5's ABI 201 to 204 */
enum { ABI_UNEQUAL = 204 };

word world;
int world_number, handle_bytes, learned;
static int (*compare)(word, word, int *), (*rank_in)(word, int *), (*size_of)(word, int *);
static word (*from_fortran)(int);

/* What was found of a handle, until a communicator is freed: in one word, so that threads need no lock. A pointer's lowest three bits are 0,
   and its upper 16 (Linux hands out no more than 48). */
enum { CLASSES = 1024, KEY_BITS = 45, EPOCHS = 1 << 17 };
static uint64_t classes[CLASSES]; /* epoch, whether it has all ranks, lang, key */
static uint32_t epoch = 1;

static uint64_t key_of(word comm, enum lang lang) {
	uint64_t key = lang == LANG_C && handle_bytes == sizeof(void *) ? (uint64_t)comm >> 3 : (uint32_t)comm;
	return (key & ((1ull << KEY_BITS) - 1)) | (uint64_t)(lang == LANG_FORTRAN) << KEY_BITS;
}

static uint64_t *place_of(uint64_t key) { return &classes[(key * 0x9e3779b97f4a7c15u) >> 54]; } /* Fibonacci hashing: the upper 10 bits */

/* find_known says what is known of a communicator: 1 it has all ranks, 0 it has not, -1 nothing. */
static int find_known(uint64_t key) {
	uint64_t class = __atomic_load_n(place_of(key), __ATOMIC_RELAXED);
	uint64_t all = class >> (KEY_BITS + 1) & 1;
	uint64_t of = class >> (KEY_BITS + 2);
	if ((class & ((1ull << (KEY_BITS + 1)) - 1)) != key || of != __atomic_load_n(&epoch, __ATOMIC_RELAXED))
		return -1;
	return (int)all;
}

static void note_known(uint64_t key, int all) {
	uint64_t of = __atomic_load_n(&epoch, __ATOMIC_RELAXED);
	__atomic_store_n(place_of(key), of << (KEY_BITS + 2) | (uint64_t)all << (KEY_BITS + 1) | key, __ATOMIC_RELAXED);
}

/* A communicator that is freed leaves its handle to the next one. */
void forget_comms(void) {
	uint32_t next = __atomic_load_n(&epoch, __ATOMIC_RELAXED) + 1;
	if (next == EPOCHS) {
		for (size_t i = 0; i < CLASSES; i++)
			__atomic_store_n(&classes[i], 0, __ATOMIC_RELAXED);
		next = 1;
	}
	__atomic_store_n(&epoch, next, __ATOMIC_RELAXED);
}

/* find_library notes which handle MPI_COMM_WORLD should have, without mpi.h: the address of a variable in Open MPI, 0x101 in the ABI of
   MPI 5.0, which MPICH 5 has in libmpi_abi, and 0x44000000 in MPICH and all that share its ABI, which all others are taken for: where they
   are not, the program never passes that handle. */
void find_library(void) {
	compare = (int (*)(word, word, int *))library.compare;
	rank_in = (int (*)(word, int *))library.rank;
	size_of = (int (*)(word, int *))library.size;
	from_fortran = (word (*)(int))library.from_fortran;
	world = 0x44000000;
	world_number = 0x44000000;
	handle_bytes = sizeof(int);
	if (library.open_mpi_world) {
		world = (word)library.open_mpi_world;
		world_number = 0; /* mpif-constants.h of Open MPI 4 and 5 */
		handle_bytes = sizeof(void *);
	} else if (library.abi) {
		world = 0x101;
		world_number = 0x101;
		handle_bytes = sizeof(void *);
	}
	int (*thread_level)(int *) = (int (*)(int *))library.thread_level;
	int level = 0;
	if (thread_level && thread_level(&level) == 0 && (level == 3 || level == 4096)) /* MPI_THREAD_MULTIPLE, and in the ABI of MPI 5.0 */
		page->saw |= SAW_THREADS;
}

/* The word that C has for a communicator. Integers come with any upper half. */
static word in_c(word comm, enum lang lang) {
	if (lang == LANG_FORTRAN)
		comm = from_fortran ? from_fortran(*(int *)comm) : *(int *)comm;
	return handle_bytes == sizeof(int) ? (word)(int)comm : comm;
}

/* learn is told of each communicator that the program may pass first: of MPI_COMM_WORLD rank and size are asked, once. */
void learn(word comm, enum lang lang) {
	if (LIKELY(learned) || !is_world(comm, lang) || !rank_in || !size_of || !compare)
		return;
	word handle = lang == LANG_C ? comm : in_c(comm, lang);
	int r = -1;
	int s = 0;
	if (!is_world(handle, LANG_C) || rank_in(handle, &r) != 0 || size_of(handle, &s) != 0)
		return;
	page->rank = r;
	page->size = s;
	page->state = STATE_INITIALIZED;
	learned = 1;
}

/* is_known says what covers_all has found of a communicator that is not MPI_COMM_WORLD. */
int is_known(word comm, enum lang lang) { return find_known(key_of(lang == LANG_FORTRAN ? *(int *)comm : comm, lang)) == 1; }

/* Whether a collective over comm is one of all ranks. It is asked when such a call is over, and where may_ask is false, nobody knows whether
   it came to a good end: MPI is not asked then. */
int covers_all(word comm, enum lang lang, int may_ask) {
	learn(comm, lang);
	if (!learned)
		return 0;
	if (is_world(comm, lang))
		return 1;
	uint64_t key = key_of(lang == LANG_FORTRAN ? *(int *)comm : comm, lang);
	int known = find_known(key);
	if (known >= 0 || !may_ask)
		return known == 1;
	int how = MPI_UNEQUAL_;
	int all = compare(in_c(comm, lang), world, &how) == 0 && how != MPI_UNEQUAL_ && how != ABI_UNEQUAL;
	note_known(key, all);
	return all;
}

/* The i-th request of an array, as a word. */
word request_at(word pointer, size_t i, enum lang lang) {
	if (lang == LANG_FORTRAN || handle_bytes == sizeof(int))
		return ((int *)pointer)[i];
	return ((word *)pointer)[i];
}
