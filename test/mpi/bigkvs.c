/* bigkvs [KEYS [BYTES]]: a PMI-1 client without any MPI library. Every rank puts KEYS values
 * (default 1000) of BYTES characters (default 600), all meet in a barrier, and every rank reads
 * values of every other rank (each rank a different eighth) and compares them; then they meet
 * again and finalize. Rank 0 prints "bigkvs ok N values".
 * Speaks the wire over PMI_FD, or over PMI_PORT and PMI_ID. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static FILE *in, *out;
static char line[4096];

static void die(const char *what) {
    fprintf(stderr, "bigkvs: %s; last line read: %s\n", what, line);
    exit(1);
}

/* reads a line and insists that it begins with what is expected */
static void expect(const char *begin) {
    if (!fgets(line, sizeof line, in)) die("the server hung up");
    if (strncmp(line, begin, strlen(begin))) die(begin);
    if (strlen(line) > 1023) die("a reply that old clients would cut");
}

static const char *field(const char *key) {
    static char value[2048];
    char *p = strstr(line, key);
    if (!p || sscanf(p + strlen(key), "%2047[^ \n]", value) != 1) die(key);
    return value;
}

static void ask(const char *request, const char *reply) {
    fputs(request, out);
    fflush(out);
    expect(reply);
}

static void connect_server(void) {
    int fd;
    if (getenv("PMI_FD")) {
        fd = atoi(getenv("PMI_FD"));
    } else {
        char host[64];
        int port;
        struct sockaddr_in to = {.sin_family = AF_INET};
        if (!getenv("PMI_PORT") || sscanf(getenv("PMI_PORT"), "%63[^:]:%d", host, &port) != 2) die("no PMI_FD and no PMI_PORT");
        to.sin_port = htons(port);
        inet_pton(AF_INET, host, &to.sin_addr);
        fd = socket(AF_INET, SOCK_STREAM, 0);
        if (connect(fd, (struct sockaddr *)&to, sizeof to)) die("connect");
    }
    in = fdopen(fd, "r");
    out = fdopen(dup(fd), "w");
    if (!getenv("PMI_FD")) {
        fprintf(out, "cmd=initack pmiid=%s\n", getenv("PMI_ID"));
        fflush(out);
        expect("cmd=initack");
        expect("cmd=set size=");
        expect("cmd=set rank=");
        expect("cmd=set debug=");
    }
}

static void fill(char *value, int bytes, int rank, int key) {
    for (int i = 0; i < bytes; i++) value[i] = 'a' + (rank * 31 + key * 7 + i) % 26;
    value[bytes] = 0;
}

int main(int argc, char **argv) {
    int keys = argc > 1 ? atoi(argv[1]) : 1000, bytes = argc > 2 ? atoi(argv[2]) : 600;
    int rank = atoi(getenv("PMI_RANK")), size = atoi(getenv("PMI_SIZE"));
    static char request[4096], value[2048], kvs[64];
    long read = 0;
    if (bytes > 866 || bytes < 1) die("BYTES is 1 to 866");
    connect_server();
    ask("cmd=init pmi_version=1 pmi_subversion=1\n", "cmd=response_to_init pmi_version=1 ");
    ask("cmd=get_maxes\n", "cmd=maxes ");
    if (atoi(field("vallen_max=")) < bytes) die("vallen_max");
    ask("cmd=get_my_kvsname\n", "cmd=my_kvsname ");
    snprintf(kvs, sizeof kvs, "%.60s", field("kvsname="));
    for (int k = 0; k < keys; k++) {
        fill(value, bytes, rank, k);
        snprintf(request, sizeof request, "cmd=put kvsname=%s key=r%d-%d value=%s\n", kvs, rank, k, value);
        ask(request, "cmd=put_result rc=0");
    }
    ask("cmd=barrier_in\n", "cmd=barrier_out rc=0");
    for (int r = 0; r < size; r++)
        for (int k = (r + rank) % 8; k < keys; k += 8, read++) {
            snprintf(request, sizeof request, "cmd=get kvsname=%s key=r%d-%d\n", kvs, r, k);
            ask(request, "cmd=get_result rc=0 found=TRUE");
            fill(value, bytes, r, k);
            if (strcmp(field("value="), value)) die("another value than was put");
        }
    ask("cmd=barrier_in\n", "cmd=barrier_out rc=0");
    ask("cmd=finalize\n", "cmd=finalize_ack rc=0");
    if (rank == 0) printf("bigkvs ok %ld values\n", read);
    return 0;
}
