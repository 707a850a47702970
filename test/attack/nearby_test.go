package attack

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

// A run on one machine is looked at by its own user, and by nobody else: not by another uid, though it is shown the way; not where somebody made the
// directory first, as their own, open to all, or as a link. The run goes on all the same.
func TestOnlyItsUserLooksAtALocalRun(t *testing.T) {
	need.Root(t)
	const stranger = 12345
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	for name, prepare := range map[string]func(at string) error{
		"nobody was there": func(string) error { return nil },
		"a stranger's":     func(at string) error { return errorsOf(os.Mkdir(at, 0o700), os.Chown(at, stranger, stranger)) },
		"open to all":      func(at string) error { return errorsOf(os.Mkdir(at, 0o700), os.Chmod(at, 0o777)) },
		"a link":           func(at string) error { return os.Symlink(os.TempDir(), at) },
	} {
		t.Run(name, func(t *testing.T) {
			runtime := filepath.Join(dir, strings.ReplaceAll(name, " ", "-"))
			at := filepath.Join(runtime, "mpiup")
			if err := errorsOf(os.Mkdir(runtime, 0o711), prepare(at)); err != nil {
				t.Fatal(err)
			}
			env := []string{"PATH=/usr/bin:/bin", "XDG_RUNTIME_DIR=" + runtime}
			run := exec.Command(bin, "run", "-n", "1", "sh", "-c", "echo begun; read line")
			run.Env = env
			in, err := run.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			p, err := lab.StartHere(run)
			if err != nil {
				t.Fatal(err)
			}
			p.Says(t, "begun")
			look := func(uid uint32) lab.Result {
				cmd := exec.Command(bin, "ps")
				cmd.Env, cmd.SysProcAttr = env, &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
				return lab.Run(t, lab.Bound, cmd)
			}
			if name == "nobody was there" {
				lab.Eventually(t, "its user sees it", func() bool { return strings.Contains(look(0).Stdout, " sh ") })
			} else if r := look(0); r.Code != 241 || r.Stdout != "" || !strings.Contains(r.Stderr, runtime) {
				t.Errorf("its user is told %q, %q", r.Stdout, r.Stderr)
			}
			if r := look(stranger); r.Code != 241 || r.Stdout != "" {
				t.Errorf("a stranger is told %q", r.Stdout)
			}
			if err := in.Close(); err != nil {
				t.Fatal(err)
			}
			p.Wait(t).Fails(t, 1)
		})
	}
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
