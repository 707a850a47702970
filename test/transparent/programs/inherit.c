/* What children find in their environment, started before main, before MPI_Init, and after it, in each way. */
#define _GNU_SOURCE
#include <mpi.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
static char *const look[] = {"sh", "-c", "env | grep -E '^(LD_PRELOAD|MPIUP_WATCH)' >&2; grep -l libmpiup-watch /proc/self/maps | sed 's/^/library in /' >&2; exit 0", NULL};

static int show(const char *when) {
	int status, failed = 0;
	pid_t child;
	fprintf(stderr, "%s\n", when);
	for (char **e = environ; *e; e++)
		if (strncmp(*e, "LD_PRELOAD", 10) == 0 || strncmp(*e, "MPIUP_WATCH", 11) == 0)
			fprintf(stderr, "own %s\n", *e);
	FILE *f = fopen("/proc/self/environ", "r");
	static char text[1 << 18];
	size_t n = fread(text, 1, sizeof text - 1, f);
	fclose(f);
	for (size_t i = 0; i < n; i += strlen(text + i) + 1)
		if (strncmp(text + i, "LD_PRELOAD", 10) == 0 || strncmp(text + i, "MPIUP_WATCH", 11) == 0)
			fprintf(stderr, "kernel's %s\n", text + i);
	failed |= system(look[2]);
	if ((child = vfork()) == 0) {
		execv("/bin/sh", look);
		_exit(1);
	}
	waitpid(child, &status, 0);
	failed |= status;
	if ((child = fork()) == 0) {
		execvp("sh", look);
		_exit(1);
	}
	waitpid(child, &status, 0);
	failed |= status;
	if ((child = fork()) == 0) {
		execve("/bin/sh", look, environ);
		_exit(1);
	}
	waitpid(child, &status, 0);
	failed |= status;
	failed |= posix_spawnp(&child, "sh", NULL, NULL, look, environ);
	waitpid(child, &status, 0);
	return failed | status;
}

__attribute__((constructor)) static void start(void) {
	if (!getenv("INHERIT_STARTED"))
		show("before main");
}

int main(int argc, char **argv) {
	int failed = show("before MPI_Init");
	MPI_Init(&argc, &argv);
	MPI_Barrier(MPI_COMM_WORLD);
	failed |= show("after MPI_Init");
	MPI_Finalize();
	failed |= show("after MPI_Finalize");
	return failed != 0;
}
