package reap

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/test/need"
)

// A process of another user has no rights left and can gain none, which those that come before and after it from this one can. It reads what it is
// given, and only if its user may.
func TestAnotherUsersProcessGainsNothing(t *testing.T) {
	need.Root(t)
	s := supervise(t)
	const show = "grep -E '^(Uid|Gid|Groups|NoNewPrivs|CapInh|CapPrm|CapEff|CapAmb):' /proc/self/status | tr -s '\\t ' ' '; cat /proc/self/fd/0"
	nobody := &User{UID: 65534, GID: 65534}
	dir := t.TempDir()
	var input []*os.File
	for i, mode := range []os.FileMode{0o600, 0o604} {
		path := filepath.Join(dir, string(rune('a'+i)))
		if err := os.WriteFile(path, []byte("given\n"), mode); err != nil {
			t.Fatal(err)
		}
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		input = append(input, f)
	}

	for _, c := range []struct {
		name  string
		as    *User
		in    *os.File
		lines []string
		lacks string
	}{
		{"this one", nil, input[0], []string{"NoNewPrivs: 0", "Uid: 0 0 0 0", "given"}, "NoNewPrivs: 1"},
		{"another", nobody, input[1], []string{"NoNewPrivs: 1", "Uid: 65534 65534 65534 65534", "Gid: 65534 65534 65534 65534", "Groups: ",
			"CapInh: 0000000000000000", "CapPrm: 0000000000000000", "CapEff: 0000000000000000", "CapAmb: 0000000000000000", "given"}, "Groups: 0"},
		{"another again, who may not read it", nobody, input[0], []string{"NoNewPrivs: 1"}, "given"},
		{"this one again", nil, input[0], []string{"NoNewPrivs: 0", "given"}, "NoNewPrivs: 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o, err := CollectTool(t.Context(), s, Tool{Argv: []string{"sh", "-c", show}, Env: []string{"PATH=/usr/bin:/bin"}, As: c.as, In: c.in}, 4000)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range c.lines {
				if !strings.Contains("\n"+string(o.Out), "\n"+line+"\n") {
					t.Errorf("%q is not in\n%s%s", line, o.Out, o.Err)
				}
			}
			if strings.Contains(string(o.Out), c.lacks) {
				t.Errorf("%q is in\n%s", c.lacks, o.Out)
			}
		})
	}
}

// As whom a process ran that has left a core is known when it has ended, and of one that has left none nothing is.
func TestWhoLeftACore(t *testing.T) {
	need.Root(t)
	need.Core(t)
	need.Program(t, "setpriv", "util-linux")
	s := supervise(t)
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(dir, 0o777), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	const crash = "ulimit -c unlimited; kill -SEGV $$"
	for _, c := range []struct {
		name string
		argv []string
		want *User
	}{
		{"this one", []string{"/bin/sh", "-c", crash}, &User{}},
		{"another", []string{"/usr/bin/setpriv", "--reuid", "65533", "--regid", "65532", "--clear-groups", "/bin/sh", "-c", crash}, &User{65533, 65532}},
		{"no core", []string{"/bin/sh", "-c", "ulimit -c 0; kill -SEGV $$"}, nil},
		{"its end", []string{"/bin/true"}, nil},
	} {
		p := start(t, s, Command{Argv: c.argv, Env: []string{"PATH=/usr/bin:/bin"}, Dir: dir})
		wait(t, p)
		got := p.Dumped()
		if (got == nil) != (c.want == nil) || got != nil && *got != *c.want {
			t.Errorf("%s, which ended by %v: %v, want %v", c.name, p.Exit(), got, c.want)
		}
		if core := p.Exit().Core; core != (c.want != nil) || core && p.Exit().Signal != int(unix.SIGSEGV) {
			t.Errorf("%s ended by %v, core %v", c.name, p.Exit(), core)
		}
	}
}
