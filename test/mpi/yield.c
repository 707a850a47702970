/* yield is preloaded into ranks that share processors with each other: a rank that asks the kernel in vain lets the
 * others run. Libraries that only look whether a message has come (UCX, libfabric) would keep the processor for the
 * scheduler's whole slice, milliseconds for each message. System calls instead of the C library's functions: the
 * library of the stack may be older than the one of the compiler. */
#define _GNU_SOURCE
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

static int after(int events, int timeout)
{
    if (events == 0 && timeout == 0)
        sched_yield();
    return events;
}

int epoll_wait(int fd, struct epoll_event *events, int max, int timeout)
{
    return after(syscall(SYS_epoll_wait, fd, events, max, timeout), timeout);
}

int poll(struct pollfd *fds, nfds_t n, int timeout)
{
    return after(syscall(SYS_poll, fds, n, timeout), timeout);
}
