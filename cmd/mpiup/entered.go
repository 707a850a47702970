package main

import (
	"bytes"
	"os"
	"path/filepath"
)

// entered says that this process came into its container from outside (kubectl exec): none of its ancestors is PID 1, and the
// first has no parent in the container's PID namespace (pid_namespaces(7)). What becomes of it is no news of the container's.
// Where it cannot be told it is false: a hidden PID 1, or one of another cgroup, as in a pod whose containers share processes.
func entered(root string) bool {
	read := func(name string) []byte {
		b, _ := os.ReadFile(filepath.Join(root, "proc", name))
		return b
	}
	if first := read("1/cgroup"); len(first) == 0 || !bytes.Equal(first, read("self/cgroup")) {
		return false
	}
	const most = 1000 // no chain of ancestors is as long, but the kernel may give a number anew while we read
	for pid, n := "self", 0; n < most; n++ {
		own, parent, _, ok := kin(root, pid)
		if !ok || own == "1" {
			return false
		}
		if pid = parent; pid == "0" {
			return true
		}
	}
	return false
}
