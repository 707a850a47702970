package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/launcher/cli"
)

// A key that is written into a file is its owner's alone, and none that is there is lost.
func TestKeygenIntoAFile(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if code, text := said(t, "mpiup", "keygen", key); code != 0 || !strings.Contains(text, "every host of the job needs a copy") {
		t.Errorf("%d, %s", code, text)
	}
	first, err := os.ReadFile(key)
	if info, bad := os.Stat(key); err != nil || bad != nil || info.Mode().Perm() != 0o600 || !strings.Contains(string(first), "PRIVATE KEY") {
		t.Errorf("%v, %v, %v", info, bad, err)
	}
	if code, text := said(t, "mpiup", "keygen", key); code != 240 || !strings.Contains(text, "is there: use it") {
		t.Errorf("again: %d, %s", code, text)
	}
	if again, err := os.ReadFile(key); err != nil || string(again) != string(first) {
		t.Error("the key is another one")
	}
}

// A path that is mistyped is told of with what to do next, whatever the command.
func TestPathsThatAreNotThere(t *testing.T) {
	dir := t.TempDir()
	none := filepath.Join(dir, "none")
	for says, args := range map[string][]string{
		" is a directory: name a file in it":                                         {"keygen", dir},
		"make its directory first (mkdir -p " + none + ")":                           {"keygen", filepath.Join(none, "key")},
		none + ": no such file or directory (--key " + none + "): name the key that": {"agent", "--key", none},
		dir + " (--key " + dir + ") is a directory without a key in it":              {"run", "--key", dir, "--host", "w0", "true"},
		"none: no such file or directory; mpiup report --list names the reports":     {"why", none},
		"the folder is of no run's report (mpiup run --report DIR writes one)":       {"report", dir},
	} {
		if code, text := said(t, append([]string{"mpiup"}, args...)...); code == 0 || !strings.Contains(text, says) || !strings.HasPrefix(text, "mpiup: ") {
			t.Errorf("%v: %d, %s; want %s", args, code, text, says)
		}
	}
}

// MPIUP_HOSTS names hosts, as a list or a file, where no flag does.
func TestHostsOfTheVariable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "hosts")
	if err := os.WriteFile(file, []byte("w2 slots=3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		flags       cli.HostFlags
		value, want string
	}{
		{cli.HostFlags{}, "", ""},
		{cli.HostFlags{}, "w[0-1]:8", "w0 w1"},
		{cli.HostFlags{}, file, "w2"},
		{cli.HostFlags{Hosts: []string{"w7"}}, "w0", "w7"},
		{cli.HostFlags{Hostfile: file}, "w0", "w2"},
		{cli.HostFlags{Size: 3}, "w0,w1", "--size 3, and MPIUP_HOSTS names 2 hosts"},
		{cli.HostFlags{}, "w0,,w1", "MPIUP_HOSTS: "},
	} {
		entries, err := tt.flags.EntriesOr("MPIUP_HOSTS", tt.value)
		var names []string
		for _, e := range entries {
			names = append(names, e.Name)
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = err.Error()
		}
		if !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%+v, %q: %q, want %q", tt.flags, tt.value, got, tt.want)
		}
	}
}
