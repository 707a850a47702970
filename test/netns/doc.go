// Package netns makes test hosts: each a set of Linux namespaces of its own on this machine,
// which stands for a pod. Tests, the demo and the bench start agents and launchers on them.
//
//	test process (outside)
//	│
//	│   switch (network namespace)          10.77.255.254: DNS, forwarders
//	│   ┌──────────── br0 ────────────┐
//	│   │ v0         v1         v2    │
//	└───┼──┬──────────┬──────────┬────┘
//	       │eth0      │eth0      │eth0
//	     ┌─┴──┐     ┌─┴──┐    ┌──┴─────┐    net, uts, ipc, mount and pid namespaces,
//	     │ w0 │     │ w1 │    │launcher│    own /etc/hosts, /etc/resolv.conf, /tmp, /run,
//	     └────┘     └────┘    └────────┘    /dev/shm, /root, /proc, /sys; else this machine's files
//
// Namespaces have no names and the switch has no way out, so any number of clusters of any number of processes live
// side by side with the same addresses, and nothing leaves the machine. The test process holds them by descriptors,
// and each host's PID 1 gets SIGKILL when that process dies. So a crashed test leaves at most a state directory and
// cpu cgroups. The next [Up] of anyone removes those of an owner that is gone.
//
// A host is booted with a keeper as PID 1, which only reaps. [Cluster.RunInit] makes a command
// of the test PID 1 instead, as a container's entrypoint is. Commands are children of the test
// process: their pids, signals and exit codes are real, nothing stands between.
//
// Concurrency: a Cluster's methods may be called from any goroutine. Work inside a namespace is
// done on OS threads that are thrown away afterwards; the rest of the process never moves.
//
// It does not limit memory, isolate users (no user namespaces, so it needs root) or emulate
// loss and bandwidth: for delays, stalls and resets there is [Cluster.Forward], for cuts
// [Cluster.CutLink] and [Cluster.CutOneWay].
package netns
