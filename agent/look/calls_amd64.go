package look

import "golang.org/x/sys/unix"

// ownCalls are calls that only this architecture has.
var ownCalls = map[int]string{
	unix.SYS_POLL: "poll", unix.SYS_SELECT: "select", unix.SYS_EPOLL_WAIT: "epoll_wait", unix.SYS_PAUSE: "pause",
	unix.SYS_OPEN: "open", unix.SYS_STAT: "stat",
}
