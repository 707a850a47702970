/* Beginning and end: what the library finds out at MPI_Init, and the clocks. It is linked against nothing. Names of libc are weak, so
   that a program without one of them starts as it does without the library. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "watch.h"

#pragma weak dlsym
#pragma weak dlopen
#pragma weak dladdr
#pragma weak getenv
#pragma weak open
#pragma weak close
#pragma weak lseek
#pragma weak mmap
#pragma weak madvise
#pragma weak getpid
#pragma weak clock_gettime
#pragma weak fcntl
#pragma weak ftruncate
#pragma weak syscall

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18 /* linux/mman.h, Linux 4.14 */
#endif

#ifndef F_ADD_SEALS /* linux/fcntl.h */
#define F_ADD_SEALS 1033
#define F_SEAL_SEAL 1
#define F_SEAL_SHRINK 2
#define F_SEAL_GROW 4
#endif
#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 16 /* Linux 5.1 */
#endif
#ifndef MFD_CLOEXEC
#define MFD_CLOEXEC 1 /* linux/memfd.h, Linux 3.17 */
#define MFD_ALLOW_SEALING 2
#endif

struct page *page;

static const uint32_t nobody;
const volatile uint32_t *mine = &nobody, *counts = &nobody;

static inline uint64_t by(clockid_t clock) {
	struct timespec t;
	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

uint64_t nanoseconds(void) { return by(CLOCK_MONOTONIC); }

/* coarse is that clock some milliseconds ago at most: reading it takes a few nanoseconds, whatever Linux keeps time by. */
uint64_t coarse(void) { return by(CLOCK_MONOTONIC_COARSE); }

/* What was found so far was found in here. A call that a function ends with has that function's caller behind it, which may have no MPI:
   mpi4py calls MPI_Finalize so, for Python. */
static void *last;

static void *of_caller(const char *name, void *caller) {
	Dl_info at;
	void *own = 0, *found = 0;
	if (dladdr && dlopen && caller && dladdr(caller, &at) && at.dli_fname)
		own = dlopen(at.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
	if (own && (found = dlsym(own, name)))
		__atomic_store_n(&last, own, __ATOMIC_RELAXED);
	own = __atomic_load_n(&last, __ATOMIC_RELAXED);
	return found || !own ? found : dlsym(own, name);
}

/* A variable of that name: the program itself has a copy of it where it was linked so, and all use that. */
void *find_data(const char *name, void *caller) {
	if (!dlsym)
		return 0;
	void *v = dlsym(RTLD_DEFAULT, name);
	return v ? v : of_caller(name, caller);
}

/* The function of that name behind this library: of the next one that all may use, else of what the caller itself was linked with,
   as Python opens mpi4py for nobody else. 0 where the program has none: a library that it did not load is never opened. */
void *find(const char *name, void *caller) {
	if (!dlsym)
		return 0;
	void *f = dlsym(RTLD_NEXT, name);
	return f ? f : of_caller(name, caller);
}

/* The file that the function stands in, "" where nobody knows. */
const char *file_of(void *function) {
	Dl_info at;
	return function && dladdr && dladdr(function, &at) && at.dli_fname ? at.dli_fname : "";
}

static struct page *map(void) {
	if (!getenv || !open || !lseek || !mmap || !close || !clock_gettime || !madvise || !getpid)
		return 0;
	const char *path = getenv("MPIUP_WATCH_PAGE");
	if (!path)
		return 0;
	int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return 0;
	void *at = MAP_FAILED;
	if (lseek(fd, 0, SEEK_END) == PAGE_BYTES)
		at = mmap(0, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	return at == MAP_FAILED ? 0 : at;
}

/* sealed_page makes the page of this process, which its agent opens by the descriptor that stands in the file. Other processes of the same user may
   read it, and map it for reading; who wants to write to it must write to this process's memory. 0 where the kernel has no such seal. The
   descriptor is a high one: programs count on the low ones. */
static struct page *sealed_page(struct page *file) {
	enum { HIGH = 700 };
	if (!syscall || !fcntl || !ftruncate)
		return 0;
	int fd = (int)syscall(SYS_memfd_create, "mpiup-watch", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	if (fd < 0)
		return 0;
	void *at = MAP_FAILED;
	if (ftruncate(fd, PAGE_BYTES) == 0)
		at = mmap(0, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (at == MAP_FAILED || fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE | F_SEAL_SEAL) != 0) {
		close(fd);
		return 0;
	}
	int high = fcntl(fd, F_DUPFD_CLOEXEC, HIGH);
	if (high >= 0) {
		close(fd);
		fd = high;
	}
	struct page *p = at;
	p->magic = PAGE_MAGIC;
	p->version = PAGE_VERSION;
	p->flags = file->flags;
	p->owner = (uint32_t)getpid();
	__atomic_store_n(&file->sealed, (uint32_t)fd + 1, __ATOMIC_RELEASE);
	return p;
}

static uint32_t *flags; /* *mine and *counts */

/* What this process executes from now on is not measured, and may bear no library before it, as of another class or with ASan: the name of
   this one, the last of LD_PRELOAD, is cut off where it stands. */
static void spare_children(void) {
	char *list = getenv("LD_PRELOAD"), *last_name = list;
	const char *file = file_of((void *)spare_children);
	for (char *c = list; c && *c; c++)
		if (*c == ':')
			last_name = c + 1;
	size_t i = 0;
	while (last_name && last_name[i] && last_name[i] == file[i])
		i++;
	if (i > 0 && !last_name[i] && !file[i])
		last_name[last_name > list ? -1 : 0] = 0;
}

/* own gives the page to this process, if it is the first of a rank that comes here. It is tried once. */
static int own(void) {
	static uint32_t tried;
	if (page || __atomic_load_n(&tried, __ATOMIC_RELAXED) || __atomic_exchange_n(&tried, 1, __ATOMIC_SEQ_CST))
		return page != 0;
	struct page *p = map();
	if (!p || p->magic != PAGE_MAGIC || p->version != PAGE_VERSION)
		return 0;
	uint32_t *two = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (two == MAP_FAILED || madvise(two, 4096, MADV_WIPEONFORK) != 0)
		return 0;
	uint32_t owner = 0;
	if (!__atomic_compare_exchange_n(&p->owner, &owner, (uint32_t)getpid(), 0, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
		return 0;
	struct page *own_page = sealed_page(p);
	if (own_page)
		p = own_page;
	flags = two;
	flags[1] = 1;
	__atomic_store_n(&page, p, __ATOMIC_RELEASE);
	counts = flags + 1;
	spare_children();
	return 1;
}

/* begin_counting says whether this process counts its calls of NCCL: a child does not, whose flag the kernel has wiped. */
int begin_counting(void) { return !page && own() && *counts == 1; }

/* begin is called when MPI_Init is over, in whatever language. */
void begin(void *caller) {
	if (!own() || *counts != 1 || page->state != STATE_NONE)
		return;
	struct page *p = page;
	p->tick0 = ticks();
	p->ns0 = nanoseconds();
	p->tick1 = p->tick0;
	p->ns1 = p->ns0;
	learn_world(caller);
	*flags = p->state == STATE_INITIALIZED; /* else nothing is known of this library's communicators */
	mine = flags;
}

/* Both clocks, now and then: an agent that reads the page turns ticks into time by them. */
void clocks(void) {
	for (int tries = 0; tries < 3; tries++) {
		uint64_t before = ticks(), ns = nanoseconds(), after = ticks();
		if (after - before > 1 << 16) /* the processor was another's in between */
			continue;
		page->tick1 = before;
		page->ns1 = ns;
		return;
	}
}

/* finish is called as MPI_Finalize is, in which all wait for all, and finished when that is over. */
void finish(void) {
	if (!watching() || page->state != STATE_INITIALIZED)
		return;
	enter_all(CALL_Finalize, ticks());
	page->state = STATE_FINALIZED;
}

void finished(void) {
	if (watching())
		left_other();
}
