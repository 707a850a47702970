package identity

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/podfiles"
)

// DefaultScope is used where nothing tells one job from another.
const DefaultScope = "default"

const maxScope = 253 // bytes, a DNS name's bound

// findScope names the job, alike in all its pods. "SUB.NS" is a pod's subdomain (MPI
// Operator: the MPIJob's name; Trainer and JobSet: the JobSet's; Volcano: the Job's) and its
// namespace. The first that answers wins:
//
//	--job, MPIUP_JOB         as given
//	LWS_LEADER_ADDRESS       as given: LWS-GROUP.SUB.NS, the same in the whole group
//	GROVE_PCSG_NAME          GROUP-INDEX.NS of GROVE_PCSG_INDEX: one replica of Grove's scaling group
//	/etc/volcano/*.host      "POD.SUB": the same files in every pod
//	own name, /etc/hosts     "POD.SUB.NS.svc.DOMAIN", written by the kubelet; not with hostNetwork
//	/etc/mpi/hostfile        "POD.SUB.NS.svc" (MPI Operator) or "POD.SUB" (Trainer): launchers
//	/etc/resolv.conf         search "SUB.NS.svc.DOMAIN": MPI Operator's workers
//
// A hostNetwork pod of Trainer or of a plain StatefulSet is told none of these: set MPIUP_JOB.
func findScope(o Options) (scope, from string, err error) {
	env := o.Env("MPIUP_JOB")
	switch {
	case o.Scope != "" && o.Scope != env:
		return checkScope(o.Scope, "--job")
	case env != "":
		return checkScope(env, "MPIUP_JOB")
	}
	if lws := strings.TrimSuffix(strings.ToLower(o.Env("LWS_LEADER_ADDRESS")), "."); lws != "" {
		return checkScope(lws, "LWS_LEADER_ADDRESS")
	}
	if group, index := o.Env("GROVE_PCSG_NAME"), o.Env("GROVE_PCSG_INDEX"); group != "" && index != "" {
		_, domain, _ := strings.Cut(o.Env("GROVE_HEADLESS_SERVICE"), ".") // NS.svc.DOMAIN
		namespace, _, _ := strings.Cut(domain, ".")
		return checkScope(strings.ToLower(group+"-"+index+"."+namespace), "GROVE_PCSG_NAME")
	}
	p := pod{root: o.Root, names: podNames(o)}
	if p.hosts, err = p.read("etc/hosts"); err != nil {
		return "", "", err
	}
	if p.resolv, err = p.read("etc/resolv.conf"); err != nil {
		return "", "", err
	}
	for _, find := range []func() (string, string, error){p.volcano, p.own, p.hostfile, p.search} {
		if s, from, err := find(); err != nil {
			return "", "", err
		} else if s != "" {
			return checkScope(s, from)
		}
	}
	return DefaultScope, "default", nil
}

func checkScope(s, from string) (string, string, error) {
	if len(s) > maxScope {
		return "", "", fmt.Errorf("%s: a job's name has at most %d bytes, this one %d", from, maxScope, len(s))
	}
	if strings.ContainsFunc(s, notPrintable) {
		return "", "", fmt.Errorf("%s: %q is no name for a job: use letters, digits and punctuation without spaces", from, s)
	}
	return s, from, nil
}

// pod is what the files of this pod say about it.
type pod struct {
	root   string
	names  []string // what this host may be called, first labels
	hosts  []byte
	resolv []byte
}

// podNames are the first labels (and full forms) of the names this host has.
func podNames(o Options) []string {
	file, err := bounded.Regular(filepath.Join(o.Root, "etc/hostname"), maxName+2)
	if err != nil {
		file = nil // a hint only
	}
	var names []string
	for _, n := range []string{o.Name, string(bytes.TrimSpace(file)), o.Env("HOSTNAME")} {
		if n = canonical(n); n != "" && !slices.Contains(names, n) {
			names = append(names, n)
		}
	}
	return names
}

// read reads a small text file of the pod; one that is absent, unreadable or no file is empty.
func (p *pod) read(name string) ([]byte, error) {
	data, err := bounded.Regular(filepath.Join(p.root, name), maxTextFile)
	if errors.Is(err, bounded.ErrTooLarge) {
		return nil, fmt.Errorf("find the job's name (--job gives it): /%s is larger than %d bytes", name, maxTextFile)
	}
	if err != nil {
		return nil, nil
	}
	return data, nil
}

// volcano reads the svc plugin's lists, which every pod of the job has alike.
func (p *pod) volcano() (string, string, error) {
	entries, err := os.ReadDir(filepath.Join(p.root, "etc/volcano"))
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return "", "", fmt.Errorf("find the job's name (--job gives it): %w", err)
		}
		return "", "", nil
	}
	for _, e := range entries { // sorted
		if path.Ext(e.Name()) != ".host" {
			continue
		}
		data, err := p.read("etc/volcano/" + e.Name())
		if err != nil {
			return "", "", err
		}
		if s := p.fromHostfile(data, false); s != "" {
			return s, "/etc/volcano/" + e.Name(), nil
		}
	}
	return "", "", nil
}

// own looks for this pod's full name: its host name (setHostnameAsFQDN), or the kubelet's
// line in /etc/hosts.
func (p *pod) own() (string, string, error) {
	for _, n := range p.names {
		if s := serviceScope(strings.Split(n, "."), 1); s != "" {
			return s, "host name", nil
		}
	}
	for _, names := range podfiles.Hosts(string(p.hosts)) {
		for _, n := range names {
			labels := strings.Split(canonical(n), ".")
			if s := serviceScope(labels, 1); s != "" && p.calls(labels[0]) {
				return s, "/etc/hosts", nil
			}
		}
	}
	return "", "", nil
}

func (p *pod) calls(label string) bool {
	return slices.ContainsFunc(p.names, func(n string) bool {
		first, _, _ := strings.Cut(n, ".")
		return first == label
	})
}

func (p *pod) hostfile() (string, string, error) {
	data, err := p.read("etc/mpi/hostfile")
	return p.fromHostfile(data, true), "/etc/mpi/hostfile", err
}

// search reads the entry that the MPI Operator adds to its workers' resolv.conf. The usual
// entries "NS.svc.DOMAIN" and "svc.DOMAIN" have "svc" elsewhere.
func (p *pod) search() (string, string, error) {
	for _, n := range podfiles.Search(string(p.resolv)) {
		if s := serviceScope(strings.Split(canonical(n), "."), 0); s != "" {
			return s, "/etc/resolv.conf", nil
		}
	}
	return "", "", nil
}

// fromHostfile returns the scope that the first name with a subdomain gives. Of names without
// namespace, generated ones only count where generated is set: "T-node-0-0.T", since
// "node1.cluster" in somebody's own hostfile is a domain.
func (p *pod) fromHostfile(data []byte, generated bool) string {
	for line := range strings.Lines(string(data)) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		name, _, _ := strings.Cut(f[0], ":")
		labels := strings.Split(canonical(name), ".")
		if s := serviceScope(labels, 1); s != "" {
			return s
		}
		if len(labels) == 2 && isLabel(labels[1]) && (!generated || strings.HasPrefix(labels[0], labels[1]+"-")) {
			return strings.TrimSuffix(labels[1]+"."+p.namespace(), ".")
		}
	}
	return ""
}

// namespace of this pod: from its own name, the search list, or the service account; "" when
// none says.
func (p *pod) namespace() string {
	if s, _, _ := p.own(); s != "" {
		_, ns, _ := strings.Cut(s, ".")
		return ns
	}
	for _, n := range podfiles.Search(string(p.resolv)) {
		if l := strings.Split(canonical(n), "."); len(l) >= 2 && l[1] == "svc" && isLabel(l[0]) {
			return l[0]
		}
	}
	data, err := p.read("var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if ns := canonical(string(bytes.TrimSpace(data))); err == nil && isLabel(ns) {
		return ns
	}
	return ""
}

// serviceScope returns SUB.NS when labels[at:] are SUB, NS, "svc".
func serviceScope(labels []string, at int) string {
	if len(labels) < at+3 || labels[at+2] != "svc" || !isLabel(labels[at]) || !isLabel(labels[at+1]) {
		return ""
	}
	return labels[at] + "." + labels[at+1]
}

// isLabel reports whether s is a DNS label as Kubernetes allows it (RFC 1123, lower case).
func isLabel(s string) bool {
	if s == "" || len(s) > 63 || s[0] == '-' || s[len(s)-1] == '-' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

func canonical(name string) string {
	return strings.TrimSuffix(strings.ToLower(strings.TrimSpace(name)), ".")
}
