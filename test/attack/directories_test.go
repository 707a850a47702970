package attack

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

// A rank of another user than a root agent puts a link where root is to make a directory. Nothing is made behind it, and the run says which name it is.
func TestDirectoriesBehindRanksLinks(t *testing.T) {
	need.Root(t)
	for _, flag := range []string{"--checkpoint-dir", "--report", "--output-dir"} {
		for _, rest := range []string{"", "/more", "/more/still"} {
			dir := t.TempDir()
			link := filepath.Join(dir, "link")
			if err := errorsOf(os.Mkdir(filepath.Join(dir, "roots"), 0o700), os.Symlink(filepath.Join(dir, "roots", "x"), link), os.Lchown(link, 12345, 12345)); err != nil {
				t.Fatal(err)
			}
			r := mpiup(t, "run", flag, link+rest, "-n", "1", "true")
			if r.Code == 0 || !strings.Contains(r.Stderr, link+": it is a symbolic link of uid 12345") {
				t.Errorf("%s %s: it ends with %d and says %s", flag, rest, r.Code, r.Stderr)
			}
			if made, _ := os.ReadDir(filepath.Join(dir, "roots")); len(made) > 0 {
				t.Errorf("%s %s: %s was made behind the link", flag, rest, made[0].Name())
			}
		}
	}
}

// Somebody of the same user puts sockets beside those of local runs, with lines in their names and answers. mpiup ps shows none of their lines.
func TestSocketsThatForgeLines(t *testing.T) {
	runtime, err := os.MkdirTemp("", "look") // a short one: a socket's path has 108 bytes
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(runtime)
	dir := filepath.Join(runtime, "mpiup")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	const forged = "host w1 is lost"
	for _, name := range []string{"7\n" + forged + "\n-.1-01.sock", "8\x1b[2J-.1-02.sock", "9-.1-03.sock"} {
		l, err := net.Listen("unix", filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		ends := make(chan struct{})
		go func() { // who answers each question with an error of several lines
			defer close(ends)
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				text := "x\n" + forged + "\n\x1b[2J"
				fmt.Fprintf(c, "\x01\x00\x00\x00%c%s", len(text), text)
				c.Close()
			}
		}()
		defer func() { l.Close(); <-ends }()
	}
	for _, args := range [][]string{{"ps"}, {"ps", "--json"}, {"stacks"}, {"top", "--once"}} {
		c := exec.Command(bin, args...)
		c.Dir, c.Env = t.TempDir(), []string{"PATH=/usr/bin:/bin", "XDG_RUNTIME_DIR=" + runtime}
		r := lab.Run(t, bound, c)
		for line := range strings.Lines(r.Stdout + r.Stderr) {
			if strings.HasPrefix(strings.TrimLeft(line, " "), forged) || strings.Contains(line, "\x1b") {
				t.Errorf("%q says %q", args, line)
			}
		}
	}
}
