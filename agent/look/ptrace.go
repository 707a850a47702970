package look

import (
	"fmt"
	"strconv"

	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// catches says whether a process handles a signal itself, by its /proc/PID/status; sent to any other, it may end it.
func catches(status string, signal int) bool {
	mask, _ := sysfs.Field(status, "SigCgt:")
	bits, err := strconv.ParseUint(mask, 16, 64)
	return err == nil && signal >= 1 && signal <= 64 && bits&(1<<(signal-1)) != 0
}

// ptrace is what is known of whether a tool may stop a process and look into it (ptrace(2), Yama).
type ptrace struct {
	Scope    int  // kernel.yama.ptrace_scope; -1: there is no Yama
	Capable  bool // the tool has CAP_SYS_PTRACE
	SameUser bool // the process runs as the agent's user
	AsRank   bool // the tool runs as the process's user, which is another than the agent's, and has no capabilities
}

// Reads says that Yama forbids tools what it allows a process's ancestors, which the agent is of its ranks: to read its memory.
func (p ptrace) Reads() bool { return p.Scope == 1 && p.SameUser && !p.AsRank }

// userIDs are the user and group ids in a process's status (proc_pid_status(5)): real, effective, saved, of the file system.
func userIDs(status string) (users, groups []uint32) {
	return proctree.IDs(status, "Uid:"), proctree.IDs(status, "Gid:")
}

// Refusal says why no tool can look into the process, and what would let it; "": one may try.
func (p ptrace) Refusal() string {
	const add = "give the workers' containers the capability SYS_PTRACE (securityContext.capabilities.add)"
	switch {
	case p.Scope >= 3:
		return "kernel.yama.ptrace_scope is 3 on this node: nothing may look into a process until the node is booted anew"
	case p.AsRank && p.Scope > 0:
		return fmt.Sprintf("kernel.yama.ptrace_scope is %d on this node: tools look into ranks of another user than the "+
			"agent as that user, and it forbids that", p.Scope)
	case p.AsRank, p.Capable:
		return ""
	case p.Scope > 0:
		return fmt.Sprintf("kernel.yama.ptrace_scope is %d on this node: to look into a process needs CAP_SYS_PTRACE; %s", p.Scope, add)
	case !p.SameUser:
		return "the rank runs as another user than the agent: to look into it needs CAP_SYS_PTRACE; " + add
	}
	return ""
}
