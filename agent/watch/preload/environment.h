/* What the agent says to the library, and how that is kept from the program and from what it starts. */
#ifndef MPIUP_ENVIRONMENT_H
#define MPIUP_ENVIRONMENT_H

#include <time.h>

enum { LONGEST_PATH = 1024 };

extern char page_file[LONGEST_PATH]; /* "": nobody watches */
extern int (*vdso_clock)(clockid_t, struct timespec *);

void stop_handing_on(void);

#endif
