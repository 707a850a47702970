/* pmix_ompi: a PMIx client of its own (libpmix, no MPI) that asks for what Open MPI seldom does;
 * "pmix ok" from rank 0, or which step went wrong. With an argument only that step:
 *   basic    values of three scopes, absent keys, immediate, timeouts, subsets, a rank that
 *            commits late, one that commits twice
 *   late     a rank that commits late, and again later
 *   names    publish, look up, wait, first read, take back
 *   events   one rank tells the others
 *   query    what tools ask: jobs, processes, groups
 *   misc     query, log, connect, job control, groups
 *   abort    rank 0 ends the last rank, and the others go on
 *   invite   a group to which rank 0 invites the others, and that one wants to leave
 *   control  rank 0 stops the last rank, lets it go on, and ends it
 *   death    the last rank kills itself, and the others are told which it was
 *   host     the last rank's host goes when "all listen" was printed, and those of others are told which
 *            it was and who was there
 *   again    finalizes and initializes twice */
#include <pmix.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { KILLED = -402 }; /* PMIX_ERR_PROC_ABORTED_BY_SIG, whose name PMIx 3 does not have */
enum { HOST_DOWN = -231 }; /* PMIX_EVENT_NODE_DOWN, PMIX_ERR_NODE_DOWN in PMIx 3 */
enum { OWN_NOT_FOUND = -17 }; /* what PMIx 4.0.0 shows of its own store instead of the server's answer, under mpirun, too */

static pmix_proc_t me, all;
static const char *program;
static uint32_t size;

static void fail(const char *what, int rc) {
    fprintf(stderr, "rank %u: %s: %d\n", me.rank, what, rc);
    exit(9);
}
#define WANT(want, call) do { pmix_status_t rc_ = (call); if (rc_ != (want)) fail(#call, rc_); } while (0)
#define OK(call) WANT(PMIX_SUCCESS, call)

static pmix_proc_t of(uint32_t rank) {
    pmix_proc_t p;
    PMIX_LOAD_PROCID(&p, me.nspace, rank);
    return p;
}

static void put(pmix_scope_t scope, const char *key, uint32_t n) {
    pmix_value_t v;
    PMIX_VALUE_LOAD(&v, &n, PMIX_UINT32);
    OK(PMIx_Put(scope, key, &v));
}

static pmix_status_t get(uint32_t rank, const char *key, uint32_t *n, const char *attr, int seconds) {
    pmix_proc_t p = of(rank);
    pmix_value_t *v = NULL;
    pmix_info_t info;
    bool yes = true;
    if (attr && seconds) PMIX_INFO_LOAD(&info, attr, &seconds, PMIX_INT);
    else if (attr) PMIX_INFO_LOAD(&info, attr, &yes, PMIX_BOOL);
    pmix_status_t rc = PMIx_Get(&p, key, attr ? &info : NULL, attr ? 1 : 0, &v);
    if (rc == PMIX_SUCCESS) {
        if (v->type != PMIX_UINT32) fail(key, v->type);
        *n = v->data.uint32;
        PMIX_VALUE_RELEASE(v);
    }
    return rc;
}

static void absent(uint32_t rank, const char *key, const char *attr) {
    uint32_t n;
    pmix_status_t rc = get(rank, key, &n, attr, 0);
    if (rc != PMIX_ERR_NOT_FOUND && rc != OWN_NOT_FOUND) fail(key, rc);
}

static void fence(const pmix_proc_t *procs, size_t n, bool collect) {
    pmix_info_t info;
    PMIX_INFO_LOAD(&info, PMIX_COLLECT_DATA, &collect, PMIX_BOOL);
    OK(PMIx_Fence(procs, n, &info, 1));
}

static uint32_t job_number(const char *key) {
    pmix_value_t *v;
    OK(PMIx_Get(&all, key, NULL, 0, &v));
    uint32_t n = v->data.uint32;
    PMIX_VALUE_RELEASE(v);
    return n;
}

static void basic(void) {
    uint32_t n, next = (me.rank + 1) % size, locals = job_number(PMIX_LOCAL_SIZE);
    pmix_proc_t pair[2];
    char text[64], *big = malloc(10000);
    pmix_value_t v, *got;

    put(PMIX_GLOBAL, "global", 100 + me.rank);
    put(PMIX_LOCAL, "local", 200 + me.rank);
    put(PMIX_REMOTE, "remote", 300 + me.rank);
    memset(big, 'x', 9999), big[9999] = 0; /* long enough to be compressed on the way */
    PMIX_VALUE_LOAD(&v, big, PMIX_STRING);
    OK(PMIx_Put(PMIX_GLOBAL, "big", &v));
    double d = 1.5;
    PMIX_VALUE_LOAD(&v, &d, PMIX_DOUBLE);
    OK(PMIx_Put(PMIX_GLOBAL, "double", &v));
    OK(PMIx_Commit());
    fence(&all, 1, true);
    for (uint32_t r = 0; r < size; r++) {
        bool here = r / locals == me.rank / locals;
        OK(get(r, "global", &n, NULL, 0));
        if (n != 100 + r) fail("global", n);
        if (r == me.rank) continue;
        OK(get(r, here ? "local" : "remote", &n, NULL, 0));
        absent(r, here ? "remote" : "local", here ? NULL : PMIX_IMMEDIATE);
        absent(r, "absent", PMIX_IMMEDIATE);
        pmix_proc_t p = of(r);
        OK(PMIx_Get(&p, "big", NULL, 0, &got));
        if (strcmp(got->data.string, big)) fail("big", 0);
        PMIX_VALUE_RELEASE(got);
        OK(PMIx_Get(&p, "double", NULL, 0, &got));
        if (got->data.dval != 1.5) fail("double", 0);
        PMIX_VALUE_RELEASE(got);
    }

#if PMIX_VERSION_MAJOR >= 4
    /* rank 0 commits a second time, with a new key, without a fence that collects */
    if (me.rank == 0) {
        put(PMIX_GLOBAL, "second", 7);
        OK(PMIx_Commit());
    }
    fence(&all, 1, false);
    OK(get(0, "second", &n, NULL, 0));
    if (n != 7) fail("second", n);
#endif

    /* subsets, several in flight: neighbours meet in pairs */
    if (size % 2 == 0) {
        pair[0] = of(me.rank & ~1u), pair[1] = of(me.rank | 1u);
        snprintf(text, sizeof text, "pair");
        put(PMIX_GLOBAL, text, me.rank);
        OK(PMIx_Commit());
        fence(pair, 2, true);
        OK(get(me.rank ^ 1u, text, &n, NULL, 0));
        if (n != (me.rank ^ 1u)) fail("pair", n);
    }
    fence(&all, 1, true);
    absent(next, "never", PMIX_IMMEDIATE);
    free(big);
}

/* before anybody else has committed: the last rank is late */
static void late(void) {
    uint32_t n, last = size - 1;
    if (size == 1) return;
    if (me.rank != last) {
        pmix_status_t soon = get(last, "late", &n, PMIX_TIMEOUT, 1);
        absent(last, "late", PMIX_IMMEDIATE);
        if (soon != PMIX_ERR_TIMEOUT && soon != OWN_NOT_FOUND) fail("timeout", soon);
    }
    fence(&all, 1, false);
    if (me.rank == last) {
        usleep(200000);
        put(PMIX_GLOBAL, "late", 5);
        OK(PMIx_Commit());
    } else {
        OK(get(last, "late", &n, NULL, 0));
        if (n != 5) fail("late", n);
    }
    fence(&all, 1, false);

#if PMIX_VERSION_MAJOR >= 4 /* before, a client asks but once for what a rank has, under mpirun, too */
    /* a key that a rank commits later than others, while it is asked for */
    if (me.rank == last) {
        usleep(300000);
        put(PMIX_GLOBAL, "later", 6);
        OK(PMIx_Commit());
    } else {
        OK(get(last, "later", &n, PMIX_TIMEOUT, 60));
        if (n != 6) fail("later", n);
        pmix_status_t rc = get(last, "never", &n, NULL, 0);
        if (rc != PMIX_ERR_NOT_FOUND && rc != PMIX_ERR_TIMEOUT && rc != OWN_NOT_FOUND) fail("never", rc); /* openpmix says timeout */
    }
    fence(&all, 1, false);
#endif
}

static void publish(const char *key, const char *text, pmix_persistence_t persist, pmix_data_range_t range) {
    pmix_info_t info[3];
    PMIX_INFO_LOAD(&info[0], key, text, PMIX_STRING);
    PMIX_INFO_LOAD(&info[1], PMIX_PERSISTENCE, &persist, PMIX_PERSIST);
    PMIX_INFO_LOAD(&info[2], PMIX_RANGE, &range, PMIX_DATA_RANGE);
    OK(PMIx_Publish(info, 3));
}

static pmix_status_t lookup(const char *key, const char *want, int wait, int seconds) {
    pmix_pdata_t p;
    pmix_info_t info[2];
    PMIX_PDATA_CONSTRUCT(&p);
    PMIX_LOAD_KEY(p.key, key);
    PMIX_INFO_LOAD(&info[0], PMIX_WAIT, &wait, PMIX_INT);
    PMIX_INFO_LOAD(&info[1], PMIX_TIMEOUT, &seconds, PMIX_INT);
    pmix_status_t rc = PMIx_Lookup(&p, 1, wait ? info : NULL, wait ? 2 : 0);
    if (rc == PMIX_SUCCESS && strcmp(p.value.data.string, want)) fail(key, 0);
    return rc;
}

static void names(void) {
    char *keys[] = {"everywhere", NULL};
    WANT(PMIX_ERR_NOT_FOUND, lookup("everywhere", "a", 0, 0));
    fence(&all, 1, false);
    if (me.rank == size - 1) {
        usleep(100000);
        publish("everywhere", "a", PMIX_PERSIST_SESSION, PMIX_RANGE_SESSION);
        publish("here", "b", PMIX_PERSIST_SESSION, PMIX_RANGE_LOCAL);
    }
    OK(lookup("everywhere", "a", 1, 30));
    fence(&all, 1, false);
    uint32_t locals = job_number(PMIX_LOCAL_SIZE);
    bool near = me.rank / locals == (size - 1) / locals;
    WANT(near ? PMIX_SUCCESS : PMIX_ERR_NOT_FOUND, lookup("here", "b", 0, 0));
    WANT(PMIX_ERR_TIMEOUT, lookup("nobody", "", 1, 1));
    fence(&all, 1, false);
    if (me.rank == size - 1) OK(PMIx_Unpublish(keys, NULL, 0));
    if (me.rank == 0) publish("once", "c", PMIX_PERSIST_FIRST_READ, PMIX_RANGE_SESSION);
    fence(&all, 1, false);
    WANT(PMIX_ERR_NOT_FOUND, lookup("everywhere", "a", 0, 0));
    fence(&all, 1, false);
    pmix_status_t rc = lookup("once", "c", 0, 0);
    if (rc != PMIX_SUCCESS && rc != PMIX_ERR_NOT_FOUND) fail("once", rc);
    put(PMIX_GLOBAL, "had", rc == PMIX_SUCCESS);
    OK(PMIx_Commit());
    fence(&all, 1, true);
    uint32_t n, had = 0;
    for (uint32_t r = 0; r < size; r++) {
        OK(get(r, "had", &n, NULL, 0));
        had += n;
    }
    if (had != 1) fail("first readers", had);
}

static pthread_mutex_t mu = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t cond = PTHREAD_COND_INITIALIZER;
static int told, registered;

static void on_event(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                     pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t cb, void *arg) {
    (void)id, (void)results, (void)nresults;
    pthread_mutex_lock(&mu);
    if (status == -3001 && source->rank == 0) told = 1;
    for (size_t i = 0; i < ninfo; i++)
        if (status == KILLED && PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC) && info[i].value.data.proc->rank == size - 1) told = 1;
    pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&mu);
    if (cb) cb(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, arg);
}
static void on_registered(pmix_status_t status, size_t id, void *arg) {
    (void)id, (void)arg;
    pthread_mutex_lock(&mu);
    registered = status == PMIX_SUCCESS ? 1 : -1;
    pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&mu);
}

static void listen_with(pmix_notification_fn_t handler, pmix_status_t code) {
    PMIx_Register_event_handler(&code, 1, NULL, 0, handler, on_registered, NULL);
    pthread_mutex_lock(&mu);
    while (!registered) pthread_cond_wait(&cond, &mu);
    pthread_mutex_unlock(&mu);
    if (registered < 0) fail("register", 0);
    fence(&all, 1, false);
}

static void listen_for(pmix_status_t code) { listen_with(on_event, code); }

static void await_event(void) {
    pthread_mutex_lock(&mu);
    while (!told) pthread_cond_wait(&cond, &mu);
    pthread_mutex_unlock(&mu);
}

static void events(void) {
    listen_for(-3001);
    if (me.rank == 0) OK(PMIx_Notify_event(-3001, &me, PMIX_RANGE_SESSION, NULL, 0, NULL, NULL));
    await_event();
    fence(&all, 1, false);
}

static void death(void) {
    listen_for(KILLED);
    if (me.rank == size - 1) raise(SIGKILL);
    await_event();
}

static char *host_of(uint32_t rank) {
    pmix_proc_t p = of(rank);
    pmix_value_t *v;
    OK(PMIx_Get(&p, PMIX_HOSTNAME, NULL, 0, &v));
    char *name = strdup(v->data.string);
    PMIX_VALUE_RELEASE(v);
    return name;
}

static uint32_t first_gone;  /* of the last rank's host, whose name is */
static char *gone_host;

static int on_gone_host(const pmix_proc_t *p) {
    return PMIX_CHECK_NSPACE(p->nspace, me.nspace) && p->rank >= first_gone && p->rank < size;
}

static void on_host(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                    pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t cb, void *arg) {
    (void)id, (void)results, (void)nresults;
    uint32_t named = 0, affected = 0;
    for (size_t i = 0; i < ninfo; i++) {
        pmix_value_t *v = &info[i].value;
        if (PMIX_CHECK_KEY(&info[i], PMIX_HOSTNAME)) named += !strcmp(v->data.string, gone_host);
        if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROC)) affected += on_gone_host(v->data.proc);
        if (PMIX_CHECK_KEY(&info[i], PMIX_EVENT_AFFECTED_PROCS))
            for (size_t j = 0; j < v->data.darray->size; j++) affected += on_gone_host((pmix_proc_t *)v->data.darray->array + j);
    }
    if (status != HOST_DOWN || !on_gone_host(source) || named != 1 || affected != size - first_gone) {
        fprintf(stderr, "rank %u: event %d of %s %u: named %u, affected %u\n", me.rank, status, source->nspace, source->rank, named, affected);
        _exit(9);
    }
    pthread_mutex_lock(&mu);
    told = 1;
    pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&mu);
    if (cb) cb(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, arg);
}

static void host(void) {
    uint32_t locals = job_number(PMIX_LOCAL_SIZE);
    first_gone = size - locals;
    gone_host = host_of(size - 1);
    listen_with(on_host, HOST_DOWN);
    if (me.rank == 0) puts("all listen"), fflush(stdout);
    if (me.rank >= first_gone) sleep(600);
    await_event();
    printf("rank %u was told that %s is gone\n", me.rank, gone_host);
}

#ifdef PMIX_GROUP_INVITED /* groups came with PMIx 4 */
static void joined(pmix_status_t status, pmix_info_t *info, size_t ninfo, void *arg, pmix_release_cbfunc_t release, void *rarg) {
    (void)info, (void)ninfo, (void)arg;
    pthread_mutex_lock(&mu);
    told = status == PMIX_SUCCESS || status == PMIX_OPERATION_SUCCEEDED ? 1 : status;
    pthread_cond_broadcast(&cond);
    pthread_mutex_unlock(&mu);
    if (release) release(rarg);
}

static void on_invited(size_t id, pmix_status_t status, const pmix_proc_t *source, pmix_info_t info[], size_t ninfo,
                       pmix_info_t *results, size_t nresults, pmix_event_notification_cbfunc_fn_t cb, void *arg) {
    (void)id, (void)status, (void)results, (void)nresults;
    const char *group = NULL;
    for (size_t i = 0; i < ninfo; i++)
        if (PMIX_CHECK_KEY(&info[i], PMIX_GROUP_ID)) group = info[i].value.data.string;
    pmix_status_t rc = group ? PMIx_Group_join_nb(group, source, PMIX_GROUP_ACCEPT, NULL, 0, joined, NULL) : PMIX_ERR_BAD_PARAM;
    if (rc != PMIX_SUCCESS) joined(rc, NULL, 0, NULL, NULL, NULL);
    if (cb) cb(PMIX_EVENT_ACTION_COMPLETE, NULL, 0, NULL, NULL, arg);
}

static void invite(void) {
    pmix_status_t code = PMIX_GROUP_INVITED;
    pmix_info_t *results;
    size_t n;
    if (me.rank != 0) PMIx_Register_event_handler(&code, 1, NULL, 0, on_invited, on_registered, NULL);
    pthread_mutex_lock(&mu);
    while (me.rank != 0 && !registered) pthread_cond_wait(&cond, &mu);
    pthread_mutex_unlock(&mu);
    fence(&all, 1, false);
    if (me.rank == 0) {
        pmix_proc_t *others = calloc(size, sizeof *others);
        for (uint32_t r = 0; r < size; r++) others[r] = of(r);
        OK(PMIx_Group_invite("guests", others, size, NULL, 0, &results, &n));
        free(others);
    } else {
        pthread_mutex_lock(&mu);
        while (!told) pthread_cond_wait(&cond, &mu);
        pthread_mutex_unlock(&mu);
        if (told < 0) fail("join", told);
    }
    fence(&all, 1, false);
    if (me.rank == size - 1) WANT(PMIX_ERR_NOT_SUPPORTED, PMIx_Group_leave("guests", NULL, 0));
    fence(&all, 1, false);
}
#endif

/* groups wants a context id that all members know; PMIx has them since version 4. */
static void groups(void) {
#ifdef PMIX_GROUP_ASSIGN_CONTEXT_ID
    pmix_info_t info;
    pmix_proc_t *members = calloc(size, sizeof *members);
    bool yes = true;
    for (uint32_t r = 0; r < size; r++) members[r] = of(r);
    PMIX_INFO_LOAD(&info, PMIX_GROUP_ASSIGN_CONTEXT_ID, &yes, PMIX_BOOL);
    pmix_info_t *out = NULL;
    size_t nout = 0;
    OK(PMIx_Group_construct("group", members, size, &info, 1, &out, &nout));
    size_t id = 0;
    for (size_t i = 0; i < nout; i++)
        if (PMIX_CHECK_KEY(&out[i], PMIX_GROUP_CONTEXT_ID)) id = out[i].value.data.size;
    if (!id) fail("no context id", (int)nout);
    put(PMIX_GLOBAL, "context", (uint32_t)id);
    OK(PMIx_Commit());
    fence(&all, 1, true);
    for (uint32_t r = 0, other; r < size; r++) {
        OK(get(r, "context", &other, NULL, 0));
        if (other != (uint32_t)id) fail("context ids differ", (int)r);
    }
    OK(PMIx_Group_destruct("group", NULL, 0));
    free(members);
#endif
}

static void misc(void) {
    pmix_info_t info;
#if PMIX_VERSION_MAJOR >= 4 /* before, a query could not be waited for */
    pmix_query_t q;
    pmix_info_t *results;
    size_t n;
    PMIX_QUERY_CONSTRUCT(&q);
    PMIX_ARGV_APPEND(n, q.keys, PMIX_QUERY_NAMESPACES);
    OK(PMIx_Query_info(&q, 1, &results, &n));
    if (n < 1 || strcmp(results[0].value.data.string, me.nspace)) fail("query", (int)n);
#endif
    PMIX_INFO_LOAD(&info, PMIX_LOG_STDERR, "logged text\n", PMIX_STRING);
    if (me.rank == 0) OK(PMIx_Log(&info, 1, NULL, 0));
    OK(PMIx_Connect(&all, 1, NULL, 0));
    OK(PMIx_Disconnect(&all, 1, NULL, 0));
    groups();
}

#if PMIX_VERSION_MAJOR >= 4
/* ask asks one thing, with a text as the qualifier if there is one, and returns its answer. */
static pmix_value_t *ask(const char *key, const char *qualifier, const char *text, pmix_data_type_t type) {
    pmix_query_t q;
    pmix_info_t *results = NULL;
    size_t n = 0;
    PMIX_QUERY_CONSTRUCT(&q);
    PMIX_ARGV_APPEND(n, q.keys, key);
    if (qualifier) {
        PMIX_QUERY_QUALIFIERS_CREATE(&q, 1);
        PMIX_INFO_LOAD(&q.qualifiers[0], qualifier, text, PMIX_STRING);
    }
    n = 0;
    OK(PMIx_Query_info(&q, 1, &results, &n));
    if (n != 1 || !PMIX_CHECK_KEY(&results[0], key) || results[0].value.type != type) fail(key, n ? results[0].value.type : -1);
    return &results[0].value;
}

static pmix_info_t *find(pmix_info_t *infos, size_t n, const char *key, size_t *from) {
    for (; *from < n; ++*from)
        if (PMIX_CHECK_KEY(&infos[*from], key)) return &infos[(*from)++];
    return NULL;
}

/* table wants n processes that are connected, those of this host with their programs and process ids */
static void table(const char *key, uint32_t n, uint32_t locals) {
    pmix_data_array_t *a = ask(key, PMIX_NSPACE, me.nspace, PMIX_DATA_ARRAY)->data.darray;
    pmix_proc_info_t *p = a->array;
    if (a->size != n || a->type != PMIX_PROC_INFO) fail(key, (int)a->size);
    for (uint32_t i = 0; i < n; i++) {
        bool here = p[i].proc.rank / locals == me.rank / locals, self = p[i].proc.rank == me.rank;
        if (!PMIX_CHECK_NSPACE(p[i].proc.nspace, me.nspace) || strcmp(p[i].hostname, host_of(p[i].proc.rank))) fail(key, (int)i);
        if (here && (strcmp(p[i].executable_name, program) || p[i].state != PMIX_PROC_STATE_CONNECTED || p[i].pid <= 0)) fail("process", (int)i);
        if (self && p[i].pid != getpid()) fail("pid", p[i].pid);
    }
}

static void query(void) {
    uint32_t locals = job_number(PMIX_LOCAL_SIZE);
    size_t at = 0, n = 0;
    fence(&all, 1, false);
    table(PMIX_QUERY_PROC_TABLE, size, locals);
    table(PMIX_QUERY_LOCAL_PROC_TABLE, locals, locals);
    pmix_data_array_t *jobs = ask(PMIX_QUERY_NAMESPACE_INFO, NULL, NULL, PMIX_DATA_ARRAY)->data.darray;
    if (jobs->size != 1 || !PMIX_CHECK_KEY((pmix_info_t *)jobs->array, PMIX_JOB_INFO_ARRAY)) fail("jobs", (int)jobs->size);
    pmix_data_array_t *job = ((pmix_info_t *)jobs->array)->value.data.darray;
    pmix_info_t *i = find(job->array, job->size, PMIX_NSPACE, &at);
    if (!i || !PMIX_CHECK_NSPACE(i->value.data.string, me.nspace)) fail("nspace", 0);
    i = find(job->array, job->size, PMIX_CMD_LINE, &at);
    if (!i || strncmp(i->value.data.string, program, strlen(program))) fail("command line", 0);
    i = find(job->array, job->size, PMIX_JOB_SIZE, &at);
    if (!i || i->value.data.uint32 != size) fail("job size", 0);
    while ((i = find(job->array, job->size, PMIX_PROC_INFO_ARRAY, &at))) {
        pmix_info_t *of = i->value.data.darray->array;
        if (i->value.data.darray->size != 3 || of[0].value.data.rank >= size || strcmp(of[1].value.data.string, host_of(of[0].value.data.rank))) fail("process of the job", (int)n);
        n++;
    }
    if (n != size) fail("processes", (int)n);
    if (!strstr(ask("pmix.qry.keys", NULL, NULL, PMIX_STRING)->data.string, PMIX_QUERY_NAMESPACES)) fail("keys", 0);
#ifdef PMIX_QUERY_GROUP_NAMES
    pmix_proc_t *members = calloc(size, sizeof *members);
    pmix_info_t *out = NULL;
    for (uint32_t r = 0; r < size; r++) members[r] = of(r);
    OK(PMIx_Group_construct("asked", members, size, NULL, 0, &out, &n));
    pmix_data_array_t *names = ask(PMIX_QUERY_GROUP_NAMES, NULL, NULL, PMIX_DATA_ARRAY)->data.darray;
    if (names->size != 1 || names->type != PMIX_STRING || strcmp(*(char **)names->array, "asked")) fail("groups", (int)names->size);
    if (ask(PMIX_QUERY_NUM_GROUPS, NULL, NULL, PMIX_SIZE)->data.size != 1) fail("number of groups", 0);
    pmix_data_array_t *in = ask(PMIX_QUERY_GROUP_MEMBERSHIP, PMIX_GROUP_ID, "asked", PMIX_DATA_ARRAY)->data.darray;
    if (in->size != size || in->type != PMIX_PROC || ((pmix_proc_t *)in->array)[size - 1].rank != size - 1) fail("members", (int)in->size);
    fence(&all, 1, false);
    OK(PMIx_Group_destruct("asked", NULL, 0));
    free(members);
#endif
    pmix_query_t q;
    PMIX_QUERY_CONSTRUCT(&q);
    PMIX_ARGV_APPEND(n, q.keys, PMIX_QUERY_QUEUE_LIST);
    pmix_info_t *none;
    WANT(PMIX_ERR_NOT_SUPPORTED, PMIx_Query_info(&q, 1, &none, &n));
}
#endif

static void aborts(void) {
    pmix_proc_t last = of(size - 1), *rest = calloc(size, sizeof *rest);
    fence(&all, 1, false);
    if (me.rank == size - 1) sleep(600);
    if (me.rank == 0) OK(PMIx_Abort(3, "it has nothing to do", &last, 1));
    WANT(PMIX_ERR_PROC_REQUESTED_ABORT, PMIx_Fence(&all, 1, NULL, 0));
    for (uint32_t r = 0; r < size; r++) rest[r] = of(r);
    fence(rest, size - 1, true);
    free(rest);
}

static void control_last(const char *what, int signal) {
    pmix_proc_t last = of(size - 1);
    pmix_info_t info, *results = NULL;
    size_t n = 0;
    bool yes = true;
    if (signal) PMIX_INFO_LOAD(&info, what, &signal, PMIX_INT);
    else PMIX_INFO_LOAD(&info, what, &yes, PMIX_BOOL);
#if PMIX_VERSION_MAJOR >= 4
    pmix_status_t rc = PMIx_Job_control(&last, 1, &info, 1, &results, &n);
#else
    (void)results, (void)n;
    pmix_status_t rc = PMIx_Job_control(&last, 1, &info, 1);
#endif
    if (rc != PMIX_SUCCESS && rc != PMIX_OPERATION_SUCCEEDED) fail(what, rc);
}

static volatile sig_atomic_t hits;
static void hit(int sig) { (void)sig, hits++; }

static void control(void) {
    pmix_proc_t *rest = calloc(size, sizeof *rest);
    uint32_t n;
    for (uint32_t r = 0; r < size; r++) rest[r] = of(r);
    signal(SIGUSR1, hit);
    fence(&all, 1, false);
    if (me.rank == 0) {
        control_last(PMIX_JOB_CTRL_SIGNAL, SIGUSR1);
        OK(get(size - 1, "hit", &n, PMIX_TIMEOUT, 60));
        control_last(PMIX_JOB_CTRL_PAUSE, 0);
        control_last(PMIX_JOB_CTRL_RESUME, 0);
    } else if (me.rank == size - 1) {
        while (!hits) usleep(1000);
        put(PMIX_GLOBAL, "hit", 1);
        OK(PMIx_Commit());
    }
    fence(&all, 1, false);
    if (me.rank == size - 1) sleep(600);
    if (me.rank == 0) control_last(PMIX_JOB_CTRL_KILL, 0);
    fence(rest, size - 1, false);
    free(rest);
}

static void init(void) {
    OK(PMIx_Init(&me, NULL, 0));
    PMIX_LOAD_PROCID(&all, me.nspace, PMIX_RANK_WILDCARD);
    size = job_number(PMIX_JOB_SIZE);
}

int main(int argc, char **argv) {
    const char *only = argc > 1 ? argv[1] : NULL;
    program = argv[0];
    struct { const char *name; void (*run)(void); } steps[] = {
        {"late", late}, {"basic", basic}, {"names", names}, {"events", events}, {"misc", misc},
    };
    init();
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
        if (!only || !strcmp(only, steps[i].name)) steps[i].run();
    if (only && !strcmp(only, "abort")) aborts();
    if (only && !strcmp(only, "death")) death();
    if (only && !strcmp(only, "host")) host();
#if PMIX_VERSION_MAJOR >= 4
    if (only && !strcmp(only, "query")) query();
#endif
#ifdef PMIX_GROUP_INVITED
    if (only && !strcmp(only, "invite")) invite();
#endif
    if (only && !strcmp(only, "control")) control();
    if (only && !strcmp(only, "again")) {
        fence(&all, 1, false);
        OK(PMIx_Finalize(NULL, 0));
        init();
        fence(&all, 1, false);
    }
    if (me.rank == 0) puts("pmix ok");
    fflush(stdout);
    OK(PMIx_Finalize(NULL, 0));
    return 0;
}
