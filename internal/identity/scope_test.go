package identity

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/cost"
	"golang.org/x/tools/txtar"
)

// podFixture writes a testdata/pods file's tree and returns Options for it, and its wants.
//
//	want: SCOPE
//	from: WHERE
//	name: HOSTNAME
//	env: NAME=VALUE
//	-- etc/hosts --
func podFixture(t *testing.T, file string) (o Options, want, from string) {
	t.Helper()
	a, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for line := range strings.Lines(string(a.Comment)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		switch key {
		case "want":
			want = value
		case "from":
			from = value
		case "name":
			o.Name = value
		case "env":
			k, v, _ := strings.Cut(value, "=")
			env[k] = v
		}
	}
	o.Root = t.TempDir()
	o.Env = func(name string) string { return env[name] }
	for _, f := range a.Files {
		write(t, filepath.Join(o.Root, f.Name), f.Data)
	}
	return o, want, from
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Each file is a pod; pods of one job ("JOB--POD.txt") must arrive at one scope.
func TestScopeOfEveryPod(t *testing.T) {
	files, err := filepath.Glob("testdata/pods/*.txt")
	if err != nil || len(files) < 20 {
		t.Fatalf("%d fixtures, %v", len(files), err)
	}
	ofJob := map[string]string{}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			o, want, from := podFixture(t, file)
			scope, gotFrom, err := findScope(o)
			if err != nil {
				t.Fatal(err)
			}
			if scope != want || gotFrom != from {
				t.Errorf("scope %q from %q, want %q from %q", scope, gotFrom, want, from)
			}
			job, _, _ := strings.Cut(filepath.Base(file), "--")
			if other, seen := ofJob[job]; seen && other != scope {
				t.Errorf("two pods of job %s: %q and %q", job, other, scope)
			}
			ofJob[job] = scope
		})
	}
}

func TestScopeGiven(t *testing.T) {
	env := func(string) string { return "from-env" }
	for _, tt := range []struct{ name, scope, want, from, err string }{
		{name: "flag over variable", scope: "flag", want: "flag", from: "--job"},
		{name: "flag holds the variable", scope: "from-env", want: "from-env", from: "MPIUP_JOB"},
		{name: "variable", want: "from-env", from: "MPIUP_JOB"},
		{name: "space", scope: "a b", err: "no name for a job"},
		{name: "control", scope: "a\x1b[1m", err: "no name for a job"},
		{name: "long", scope: strings.Repeat("x", 254), err: "at most 253 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, from, err := findScope(Options{Scope: tt.scope, Env: env, Root: t.TempDir()})
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil || got != tt.want || from != tt.from {
				t.Errorf("%q from %q, %v", got, from, err)
			}
		})
	}
}

func FuzzScopeFiles(f *testing.F) {
	f.Add([]byte("10.1.2.4\tpi-worker-0.pi.team-a.svc.cluster.local\tpi-worker-0\n"), []byte("search team-a.svc.cluster.local pi.team-a.svc.cluster.local\n"), []byte("pi-worker-0.pi.team-a.svc slots=2\n"), "pi-worker-0")
	f.Add([]byte("fe80::1%eth0 a\n#\n"), []byte("search\nsearch ."), []byte("a-0.a:3\n"), "a-0")
	f.Fuzz(func(t *testing.T, hosts, resolv, hostfile []byte, name string) {
		defer cost.Watch(t, cost.Parser, len(hosts)+len(resolv)+len(hostfile)+len(name))()
		p := pod{names: []string{canonical(name)}, hosts: hosts, resolv: resolv}
		own, _, _ := p.own()
		search, _, _ := p.search()
		for _, s := range []string{own, search, p.fromHostfile(hostfile, true), p.fromHostfile(hostfile, false)} {
			if s == "" {
				continue
			}
			if _, _, err := checkScope(s, "fuzz"); err != nil {
				t.Errorf("found a scope that is none: %v", err)
			}
			for _, l := range strings.Split(s, ".") {
				if !isLabel(l) {
					t.Errorf("scope %q has the label %q", s, l)
				}
			}
		}
	})
}
