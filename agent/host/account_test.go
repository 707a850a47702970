package host

import (
	"path"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
	"github.com/mpiup/mpiup/test/cost"
)

const passwd = `root:x:0:0:root:/root:/bin/bash
broken:x:7
mpiuser:x:1000:1000::/home/mpiuser:
odd:x:1001:1001::/home/odd:bash
`

func TestAccountOf(t *testing.T) {
	etc := fstest.MapFS{"etc/passwd": {Data: []byte(passwd)}}
	for _, tt := range []struct {
		name string
		uid  int
		want Account
	}{
		{"root", 0, Account{"root", "/root", "/bin/bash"}},
		{"no shell named", 1000, Account{"mpiuser", "/home/mpiuser", "/bin/sh"}},
		{"no path", 1001, Account{"odd", "/home/odd", "/bin/sh"}},
		{"no entry", 1000660000, Account{Shell: "/bin/sh"}},
	} {
		if got := AccountOf(etc, tt.uid); got != tt.want {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
	if got := AccountOf(fstest.MapFS{}, 0); got != (Account{Shell: "/bin/sh"}) {
		t.Errorf("no password file: %+v", got)
	}
}

func TestShellOfAnAccount(t *testing.T) {
	a := Account{"me", "/home/me", "/bin/bash"}
	for text, want := range map[string][]string{"": {"-bash"}, "a  'b'": {"bash", "-c", "a  'b'"}} {
		if d := cmp.Diff(want, a.Argv(text)); d != "" {
			t.Error(d)
		}
	}
	if d := cmp.Diff([]string{"USER=me", "LOGNAME=me", "SHELL=/bin/bash"}, a.Variables([]string{"HOME=/data", "X=1"})); d != "" {
		t.Error(d)
	}
	if home := a.HomeIn([]string{"HOME=/data"}); home != "/data" {
		t.Errorf("home is %s", home)
	}
	if home := a.HomeIn(nil); home != "/home/me" {
		t.Errorf("home is %s", home)
	}
}

// Whatever the image's file holds, a shell is an absolute path.
func FuzzAccountOf(f *testing.F) {
	f.Add([]byte(passwd), 1000)
	f.Add([]byte("::0::::"), 0)
	f.Fuzz(func(t *testing.T, text []byte, uid int) {
		defer cost.Watch(t, cost.Parser, len(text))()
		if a := AccountOf(fstest.MapFS{"etc/passwd": {Data: text}}, uid); !path.IsAbs(a.Shell) {
			t.Errorf("%+v", a)
		}
	})
}
