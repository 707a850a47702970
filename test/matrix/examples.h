/* What openpmix's example programs want of their examples.h, which Debian's libpmix-dev leaves out: a lock that one
 * thread waits on until a callback opens it, alone and with what the callback learnt. */
#ifndef MPIUP_EXAMPLES_H
#define MPIUP_EXAMPLES_H

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <pmix.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    volatile bool active; /* closed */
    pmix_status_t status;
    size_t evhandler_ref;
    int count;
} mylock_t;

typedef struct {
    mylock_t lock;
    char *nspace;
    int exit_code;
    bool exit_code_given;
} myrel_t;

typedef struct {
    mylock_t lock;
    pmix_status_t status;
    pmix_info_t *info;
    size_t ninfo;
} myquery_data_t;

static inline void examples_close(mylock_t *l) {
    pthread_mutex_init(&l->mutex, NULL);
    pthread_cond_init(&l->cond, NULL);
    l->active = true, l->status = PMIX_SUCCESS, l->evhandler_ref = 0, l->count = 0;
}

static inline void examples_destroy(mylock_t *l) {
    pthread_cond_destroy(&l->cond);
    pthread_mutex_destroy(&l->mutex);
}

static inline void examples_wait(mylock_t *l) {
    pthread_mutex_lock(&l->mutex);
    while (l->active) pthread_cond_wait(&l->cond, &l->mutex);
    pthread_mutex_unlock(&l->mutex);
}

static inline void examples_open(mylock_t *l) {
    pthread_mutex_lock(&l->mutex);
    l->active = false;
    pthread_cond_broadcast(&l->cond);
    pthread_mutex_unlock(&l->mutex);
}

#define DEBUG_CONSTRUCT_LOCK(l) examples_close(l)
#define DEBUG_DESTRUCT_LOCK(l) examples_destroy(l)
#define DEBUG_WAIT_THREAD(l) examples_wait(l)
#define DEBUG_WAKEUP_THREAD(l) examples_open(l)
#define DEBUG_CONSTRUCT_MYREL(r) (memset(r, 0, sizeof *(r)), examples_close(&(r)->lock))
#define DEBUG_DESTRUCT_MYREL(r) (free((r)->nspace), examples_destroy(&(r)->lock))
#define DEBUG_CONSTRUCT_MYQUERY(q) (memset(q, 0, sizeof *(q)), examples_close(&(q)->lock))
#define DEBUG_DESTRUCT_MYQUERY(q) examples_destroy(&(q)->lock)
/* The examples pass any number of names, to say that they are not used. */
#define EXAMPLES_HIDE_UNUSED_PARAMS(...) examples_unused(0, __VA_ARGS__)
static inline void examples_unused(int first, ...) { (void)first; }

#endif
