package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestServiceNames(t *testing.T) {
	const usual = "search ns.svc.cluster.local svc.cluster.local cluster.local"
	for _, tt := range []struct{ name, host, hosts, resolv, want string }{
		{"kubelet's line", "w-0", "127.0.0.1 localhost\n10.0.0.7\tw-0.job.ns.svc.cluster.local\tw-0\n", usual, "job.ns.svc.cluster.local"},
		{"not the first name of its line", "w-0", "10.0.0.7 w-0 w-0.job.ns.svc.c.example # it\n", usual, "job.ns.svc.c.example"},
		{"another pod's line", "w-0", "10.0.0.8 w-1.job.ns.svc.cluster.local w-1\n", usual, ""},
		{"no subdomain", "w-0", "10.0.0.7 w-0\n", usual, ""},
		{"hostNetwork under MPI Operator", "node-1", "10.0.0.7 node-1.example.org node-1\n", usual + " job.ns.svc.cluster.local", "job.ns.svc"},
		{"no files", "w-0", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			root := t.TempDir()
			if err := os.Mkdir(filepath.Join(root, "etc"), 0o755); err != nil {
				t.Fatal(err)
			}
			for name, text := range map[string]string{"hosts": tt.hosts, "resolv.conf": tt.resolv} {
				if text == "" {
					continue
				}
				if err := os.WriteFile(filepath.Join(root, "etc", name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := strings.Join(serviceNames(root, tt.host), " "); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestNamespace(t *testing.T) {
	const resolv = "nameserver 10.0.0.10\nsearch job.other.svc.cluster.local ns.svc.cluster.local svc.cluster.local cluster.local\n"
	for _, tt := range []struct{ name, account, resolv, want string }{
		{"service account", "team-a\n", resolv, "team-a"},
		{"search list", "", resolv, "ns"},
		{"neither", "", "search example.org svc.cluster.local\n", ""},
		{"no files", "", "", ""},
	} {
		root := t.TempDir()
		for name, text := range map[string]string{"var/run/secrets/kubernetes.io/serviceaccount/namespace": tt.account, "etc/resolv.conf": tt.resolv} {
			if text == "" {
				continue
			}
			file := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if got := namespace(root); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
		for _, address := range []string{"", "10.96.0.1"} {
			got := sandbox(root, func(name string) string { return map[string]string{"KUBERNETES_SERVICE_HOST": address}[name] })
			if pod := tt.want != "" || address != ""; pod != (got != "") {
				t.Errorf("%s, API server %q: the sandbox is %q", tt.name, address, got)
			}
		}
	}
}
