package look

import (
	"fmt"
	"strings"
	"testing"
)

func TestCatches(t *testing.T) {
	const usr1, usr2 = 10, 12
	for _, tt := range []struct {
		status string
		signal int
		want   bool
	}{
		{"Name:\tx\nSigIgn:\t0000000000000200\nSigCgt:\t0000000000000200\n", usr1, true},
		{"SigCgt:\t0000000000000200\n", usr2, false},
		{"SigIgn:\t0000000000000200\nSigCgt:\t0000000000000000\n", usr1, false},
		{"SigCgt:\tffffffffffffffff\n", 0, false},
		{"SigCgt:\tnonsense\n", usr1, false},
		{"", usr1, false},
	} {
		if got := catches(tt.status, tt.signal); got != tt.want {
			t.Errorf("%q, %d: %v", tt.status, tt.signal, got)
		}
	}
}

func TestPtrace(t *testing.T) {
	for _, tt := range []struct {
		p    ptrace
		want string // in the refusal; "": none
	}{
		{ptrace{Scope: -1, SameUser: true}, ""},
		{ptrace{Scope: 0, SameUser: true}, ""},
		{ptrace{Scope: -1}, "another user than the agent: to look into it needs CAP_SYS_PTRACE"},
		{ptrace{Scope: 1, SameUser: true}, "kernel.yama.ptrace_scope is 1 on this node: to look into a process needs CAP_SYS_PTRACE"},
		{ptrace{Scope: 2, Capable: true}, ""},
		{ptrace{Scope: 0, AsRank: true}, ""},
		{ptrace{Scope: 1, Capable: true, AsRank: true}, "tools look into ranks of another user than the agent as that user"},
		{ptrace{Scope: 3, Capable: true, SameUser: true}, "ptrace_scope is 3"},
	} {
		if got := tt.p.Refusal(); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%+v: %q", tt.p, got)
		}
	}
}

func TestIDs(t *testing.T) {
	for _, tt := range []struct{ status, want string }{
		{"Name:\tx\nUid:\t1000\t1000\t1000\t1000\nGid:\t100\t100\t100\t100\n", "[1000 1000 1000 1000] [100 100 100 100]"},
		{"Uid:\t0\t1000\t0\t0\n", "[0 1000 0 0] []"},
		{"Uid:\t-1\t1\nGid:\tx\n", "[] []"},
		{"", "[] []"},
	} {
		users, groups := userIDs(tt.status)
		if got := fmt.Sprint(users, groups); got != tt.want {
			t.Errorf("%q: %s, want %s", tt.status, got, tt.want)
		}
	}
}
