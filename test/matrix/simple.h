/* What openpmix's test/simple want of its internal headers, which no package has: the C library's headers that those
 * include, and functions of libpmix that have no public header but can be called. */
#ifndef MPIUP_SIMPLE_H
#define MPIUP_SIMPLE_H

#include <errno.h>
#include <pmix.h>
#include <pmix_server.h>
#include <pmix_tool.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void pmix_output(int stream, const char *format, ...);
char **pmix_argv_split(const char *text, int delimiter);
void pmix_argv_free(char **argv);
int pmix_argv_append_nosize(char ***argv, const char *arg);

#define PMIX_MAXHOSTNAMELEN 256
#define PMIX_HIDE_UNUSED_PARAMS(...) simple_unused(0, __VA_ARGS__)
static inline void simple_unused(int first, ...) { (void)first; }

/* Only the host's name is asked for, to be printed. */
static struct {
    const char *hostname;
} pmix_globals __attribute__((unused)) = {"a host"};

#endif
