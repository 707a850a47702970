package reap

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// plantTool writes a program into a new directory below parent, which owner owns.
func plantTool(t *testing.T, parent string, owner int) (dir string) {
	t.Helper()
	dir, err := os.MkdirTemp(parent, "mpiup-test-*")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })

	tool := filepath.Join(dir, "mpiup-test-tool")
	if err := os.WriteFile(tool, []byte("#!/bin/sh\necho from $0, PATH $PATH, ${SECRET-no secret}\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chown(tool, owner, owner), os.Chown(dir, owner, owner)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A process that is root runs no tool that another user, an earlier rank or a directory of its own has put before root's on PATH, whether it
// runs the tool as itself or as somebody else. One that is not root takes what its PATH has.
func TestRootTakesNoPlantedTool(t *testing.T) {
	need.Root(t)
	roots := plantTool(t, "/opt", 0)
	planted := plantTool(t, "/opt", 65533)
	temporary := plantTool(t, os.TempDir(), 0)
	const name = "mpiup-test-tool"

	env := []string{"SECRET=it", "PATH=" + planted + ":" + temporary + ":.:" + roots + ":/usr/bin:/bin"}
	trusted := "PATH=" + roots + ":/usr/bin:/usr/bin" // of a merged /usr
	if link, err := os.Readlink("/bin"); err != nil || filepath.Base(link) != "bin" {
		trusted = "PATH=" + roots + ":/usr/bin:/bin"
	}
	nobody := &User{UID: 65534, GID: 65534}

	for _, c := range []struct {
		name   string
		tool   string
		as     *User
		isRoot bool
		path   string // Command.Path
		env    []string
		err    error
	}{
		{name: "root", tool: name, isRoot: true, path: filepath.Join(roots, name), env: append(slices.Clone(env), trusted)},
		{name: "root, as a rank's user", tool: name, as: nobody, isRoot: true, path: filepath.Join(roots, name), env: []string{trusted, "HOME=/"}},
		{name: "root, not there", tool: "no-such-tool", isRoot: true, err: ErrNoTool},
		{name: "root, mpiup's own", tool: "/opt/mpiup-nvml", isRoot: true, path: "/opt/mpiup-nvml", env: append(slices.Clone(env), trusted)},
		{name: "not root", tool: name, path: "", env: env},
	} {
		t.Run(c.name, func(t *testing.T) {
			cmd, err := Tool{Argv: []string{c.tool}, Env: env, As: c.as}.command(c.isRoot)
			if !errors.Is(err, c.err) {
				t.Fatalf("%v, want %v", err, c.err)
			}
			if err == nil && (cmd.Path != c.path || !slices.Equal(cmd.Env, c.env) || cmd.User != c.as) {
				t.Errorf("%q with %q as %v; want %q with %q", cmd.Path, cmd.Env, cmd.User, c.path, c.env)
			}
		})
	}

	for _, as := range []*User{nil, nobody} {
		s := supervise(t)
		o, err := CollectTool(t.Context(), s, Tool{Argv: []string{name}, Env: env, As: as}, 1000)
		secret := map[bool]string{true: "it", false: "no secret"}[as == nil]
		want := "from " + filepath.Join(roots, name) + ", " + "PATH " + trusted[len("PATH="):] + ", " + secret + "\n"
		if err != nil || string(o.Out) != want {
			t.Errorf("as %v: %q, %v; want %q", as, o.Out, err, want)
		}
		for _, dir := range []string{planted, temporary, "."} {
			if o, err := CollectTool(t.Context(), s, Tool{Argv: []string{name}, Env: []string{"PATH=" + dir}, As: as}, 1000); !errors.Is(err, ErrNoTool) {
				t.Errorf("as %v from %s: %q, %v", as, dir, o.Out, err)
			}
		}
	}
}
