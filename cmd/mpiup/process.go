package main

import (
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/nearby"
	"github.com/mpiup/mpiup/internal/podfiles"
	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/hosts"
)

// identity loads this process's place in its job.
func (p *process) identity(f *cli.IdentityFlags, role identity.Role, log *slog.Logger) (*identity.Identity, error) {
	o := f.Options
	o.Named, o.Role, o.Name, o.Env, o.Log = p.keys, role, p.host, p.getenv, log
	return identity.Load(o)
}

// identityError gives the exit code to an identity that cannot be had.
func identityError(err error) error { return &exitError{job.ExitTLS, err} }

// workingDir is for commands whose words may be relative to it.
func workingDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		err = fmt.Errorf("the working directory: %w; change to one that exists", err)
	}
	return dir, err
}

// dirOrRoot is the working directory of who needs none.
func dirOrRoot() string {
	dir, err := os.Getwd()
	if err != nil {
		return "/"
	}
	return dir
}

// guardExe is the program of a supervisor's guard. PID 1 has none: the kernel ends everything with it.
func guardExe() string {
	if os.Getpid() == 1 {
		return ""
	}
	return "/proc/self/exe"
}

// loopback tells whether an address to listen on is this machine's own.
func loopback(listen string) bool {
	if listen == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(strings.Trim(listen, "[]"))
	return err == nil && ip.IsLoopback()
}

// serviceNames is the headless service this pod belongs to: its own full name in the hosts file
// that kubelet writes, without the first label ("IP  host.sub.NS.svc.domain  host"). A
// hostNetwork pod has the node's file; there the search entry that MPI Operator adds names the
// service, with a domain that may be wrong, so it is left to the resolver.
func serviceNames(root, host string) []string {
	if service := (&hosts.Sources{Root: root, Hostname: host}).Subdomain(); service != "" {
		return []string{service}
	}
	for _, s := range searched(root) {
		if l := strings.Split(s, "."); len(l) > 3 && l[2] == "svc" {
			return []string{strings.Join(l[:3], ".")}
		}
	}
	return nil
}

// searched is the resolver's search list; none is as good as an unreadable one.
func searched(root string) []string {
	b, err := bounded.Regular(filepath.Join(root, "etc/resolv.conf"), 1<<20)
	if err != nil {
		return nil
	}
	return podfiles.Search(string(b))
}

// sandbox is this pod, "" on what is none: a pod's name belongs to one pod at a time, so that the next one with it is its successor.
// Machines and containers that people name themselves may share a name, and both live.
func sandbox(root string, getenv func(string) string) string {
	if getenv("KUBERNETES_SERVICE_HOST") == "" && namespace(root) == "" {
		return ""
	}
	return identity.IncarnationOfPod(root)
}

// namespace of this pod: in the service account that kubelet mounts, else in the search list that
// it writes ("NS.svc.DOMAIN svc.DOMAIN DOMAIN").
func namespace(root string) string {
	b, err := bounded.Regular(filepath.Join(root, "var/run/secrets/kubernetes.io/serviceaccount/namespace"), 253)
	if err == nil {
		return strings.TrimSpace(string(b))
	}
	for _, s := range searched(root) {
		if l := strings.Split(s, "."); len(l) > 2 && l[1] == "svc" && len(l[0]) <= 63 {
			return l[0]
		}
	}
	return ""
}

// nearbyDir is where this user's runs on this machine let the user look at them.
func nearbyDir(getenv func(string) string) string {
	return nearby.Dir(getenv("XDG_RUNTIME_DIR"), os.TempDir(), os.Geteuid())
}
