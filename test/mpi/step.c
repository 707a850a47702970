/* What a step of a rank's work is, for slowed.c, slowed.f90 and slowed.py.

   step_begin names the kind of work, how long a step takes of itself, and a directory of the rank's own on a disk:
	sleep    it sleeps so long
	cpu      it uses so long of a processor
	memory   it sleeps so long, and reads some pages of a mapped file that was in memory at the beginning
	storage  it sleeps so long, and writes 16 KiB to a file without the page cache
	network  it sleeps so long, and sends 64 KiB to the server of $STEP_SERVER (ADDRESS:PORT), which answers with one byte

   At its exit a rank writes how long a step took in truth. With $STEP_REST a rank that waits for others asks only each millisecond whether
   they have come: more ranks than processors would else measure the scheduler. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 16384, TOUCHED = 20, WRITTEN = 16 << 10, SENT = 64 << 10 };

static char kind;
static double wanted;
static int file = -1, server = -1;
static volatile char *map;
static char *buffer;
static unsigned chance;
static int own, steps;
static double worked;

static double now(clockid_t clock) {
	struct timespec t;
	clock_gettime(clock, &t);
	return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

void step_sleep(double s) {
	struct timespec t = {(time_t)s, (long)((s - (double)(time_t)s) * 1e9)};
	while (nanosleep(&t, &t))
		;
}

void step_use(double s) {
	for (double from = now(CLOCK_THREAD_CPUTIME_ID); now(CLOCK_THREAD_CPUTIME_ID) - from < s;)
		;
}

/* What MPICH over UCX, and Open MPI, ask again and again while they wait (ucp/api/ucp.h, opal/runtime/opal_progress.h). */
static int rested(int came) {
	static int rests = -1;
	if (rests < 0)
		rests = getenv("STEP_REST") != 0;
	if (!came && rests)
		step_sleep(1e-3);
	return came;
}

unsigned ucp_worker_progress(void *worker) {
	static unsigned (*next)(void *);
	if (!next)
		next = (unsigned (*)(void *))dlsym(RTLD_NEXT, "ucp_worker_progress");
	return (unsigned)rested((int)next(worker));
}

int opal_progress(void) {
	static int (*next)(void);
	if (!next)
		next = (int (*)(void))dlsym(RTLD_NEXT, "opal_progress");
	return rested(next());
}

static void must(int well, const char *what) {
	if (!well) {
		perror(what);
		exit(3);
	}
}

static void tell(void) {
	if (steps > 0) {
		printf("rank %d worked %.6f s a step\n", own, worked / steps);
		fflush(stdout);
	}
}

void step_begin(int rank, const char *what, double seconds, const char *dir) {
	char path[4096];
	kind = what[0] == 's' && what[1] == 'l' ? 'z' : what[0];
	wanted = seconds;
	own = rank;
	must(atexit(tell) == 0, "atexit");
	chance = (unsigned)rank + 1;
	if (getenv("STEP_PIN")) {
		cpu_set_t set;
		CPU_ZERO(&set);
		CPU_SET(rank % (int)sysconf(_SC_NPROCESSORS_ONLN), &set);
		must(sched_setaffinity(0, sizeof set, &set) == 0, "sched_setaffinity");
	}
	snprintf(path, sizeof path, "%s/rank-%d", dir, rank);
	must(posix_memalign((void **)&buffer, PAGE, SENT) == 0, "memory");
	memset(buffer, rank, SENT);
	if (kind == 'm') {
		must((file = open(path, O_RDWR | O_CREAT, 0600)) >= 0, path);
		for (int i = 0; i < PAGES; i++)
			must(write(file, buffer, PAGE) == PAGE, path);
		must(fsync(file) == 0, path);
		map = mmap(0, (size_t)PAGES * PAGE, PROT_READ, MAP_SHARED, file, 0);
		must(map != MAP_FAILED && madvise((void *)map, (size_t)PAGES * PAGE, MADV_RANDOM) == 0, "mmap");
		for (int i = 0; i < PAGES; i++)
			(void)map[(size_t)i * PAGE];
	} else if (kind == 's') {
		must((file = open(path, O_RDWR | O_CREAT | O_DIRECT, 0600)) >= 0, path);
		must(pwrite(file, buffer, WRITTEN, 0) == WRITTEN && fsync(file) == 0, path); /* later writes change no metadata, for which all would wait */
	} else if (kind == 'n') {
		struct sockaddr_in to = {.sin_family = AF_INET};
		char address[16];
		unsigned short port = 0;
		must(sscanf(getenv("STEP_SERVER"), "%15[0-9.]:%hu", address, &port) == 2 && inet_pton(AF_INET, address, &to.sin_addr) == 1, "STEP_SERVER");
		to.sin_port = htons(port);
		must((server = socket(AF_INET, SOCK_STREAM, 0)) >= 0 && connect(server, (struct sockaddr *)&to, sizeof to) == 0, "connect");
	}
}

static void work(double more) {
	if (kind == 'c') {
		step_use(wanted * more);
		return;
	}
	step_sleep(wanted * more);
	if (kind == 'm')
		for (int i = 0; i < TOUCHED; i++)
			(void)map[(size_t)(rand_r(&chance) % PAGES) * PAGE];
	else if (kind == 's')
		must(pwrite(file, buffer, WRITTEN, 0) == WRITTEN, "write");
	else if (kind == 'n') {
		char answer;
		for (int done = 0, n; done < SENT; done += n)
			must((n = (int)write(server, buffer + done, (size_t)(SENT - done))) > 0, "send");
		must(read(server, &answer, 1) == 1, "answer");
	}
}

/* step makes one step, of which more says how many times as much work it is. */
void step(double more) {
	double from = now(CLOCK_MONOTONIC);
	work(more);
	worked += now(CLOCK_MONOTONIC) - from;
	steps++;
}
