// Package podfiles reads the files by which kubelet and kernel tell a pod its names and its mounts: /etc/hosts (hosts(5)),
// /etc/resolv.conf (resolv.conf(5)), /proc/mounts and /proc/PID/mountinfo (proc(5)). PURE:
// functions take a file's text, and pass over what they do not know.
package podfiles

import (
	"iter"
	"net/netip"
	"strings"
)

// Hosts are the lines of a hosts file, "ADDRESS NAME [ALIAS]...", with "#" comments: each address and its names. Lines
// that do not begin with an address are none, as for the C library.
func Hosts(text string) iter.Seq2[netip.Addr, []string] {
	return func(yield func(netip.Addr, []string) bool) {
		for line := range strings.Lines(text) {
			line, _, _ = strings.Cut(line, "#")
			f := strings.Fields(line)
			if len(f) < 2 {
				continue
			}
			if addr, err := netip.ParseAddr(f[0]); err == nil && !yield(addr, f[1:]) {
				return
			}
		}
	}
}

// Search is the resolver's search list: of several lines the last.
func Search(text string) (domains []string) {
	for line := range strings.Lines(text) {
		if f := strings.Fields(line); len(f) > 0 && f[0] == "search" {
			domains = f[1:]
		}
	}
	return domains
}
