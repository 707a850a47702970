package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
)

// ssh runs the binary under ssh's name, which finds its key as it would in a pod.
func (l *lab) ssh(t *testing.T, j job, args ...string) *running {
	t.Helper()
	link := filepath.Join(filepath.Dir(l.key), "ssh")
	if err := os.Symlink(l.bin, link); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	j.env = append(j.env, "MPIUP_KEY="+l.key)
	return l.command(t, j, append([]string{link}, args...)...)
}

func TestSSH(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, c := range []struct {
		name   string
		args   []string
		stdin  string
		stdout string
		stderr string // its beginning
		code   int
	}{
		{"command", []string{"w1", "hostname"}, "", "w1\n", "", 0},
		{"words are joined", []string{"w1", "echo", "a  b", "'c  d';", "exit", "7"}, "", "a b c  d\n", "", 7},
		{"options after the host", []string{"-o", "StrictHostKeyChecking=no", "me@w2", "-p", "2222", "-x", "hostname"}, "", "w2\n", "", 0},
		{"stdin", []string{"w0", "cat"}, "in", "in", "", 0},
		{"no stdin", []string{"-n", "w0", "cat"}, "in", "", "", 0},
		{"stderr", []string{"w0", "echo e >&2"}, "", "", "e\n", 0},
		{"shell reads stdin", []string{"w0"}, "hostname; exit 4", "w0\n", "", 4},
		{"signal", []string{"w0", "kill -9 $$"}, "", "", "", 255},
		{"no program", []string{"w0", "/no/such/program"}, "", "", "bash: ", 127},
		{"variable", []string{"-o", "SetEnv=V=1", "w0", "echo $V"}, "", "1\n", "", 0},
		{"no job's variables", []string{"w0", "env | grep -c -E '^(PMI|MPIUP_RANK|MPIUP_READY)'"}, "", "0\n", "", 1},
		{"asked for a terminal", []string{"-t", "w0", "test -t 0 || echo none"}, "", "none\n", "Pseudo-terminal", 0},
		{"terminal by force", []string{"-tt", "w0", "test -t 0 && echo one"}, "", "one\r\n", "", 0},
		{"background", []string{"-f", "w0", "echo later"}, "", "later\n", "", 0},
		{"version", []string{"-V"}, "", "", "OpenSSH_", 0},
		{"forwarding", []string{"-L", "1:w1:2", "w0"}, "", "", "ssh (mpiup): -L asks for port forwarding", 255},
		{"unknown option", []string{"-Z", "w0"}, "", "", "ssh (mpiup): unknown option -Z", 255},
		{"no host", []string{"-o", "ConnectTimeout=1", "nobody", "true"}, "", "", "mpiup: ", 255},
		{"no host, quiet", []string{"-q", "-o", "ConnectTimeout=1", "nobody", "true"}, "", "", "", 255},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := l.ssh(t, job{stdin: strings.NewReader(c.stdin)}, c.args...).Wait(t)
			r.Ends(t, c.code, c.stdout, c.stderr)
		})
	}
}

// The host's shell gets exactly the words, each after one blank: quotes, blanks, patterns and
// line ends mean there what they mean to a shell here.
func TestSSHQuotesNothing(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, words := range [][]string{
		{`printf '<%s>' "a b" 'c"d' e\ f $((1+2)) "$HOME" '$HOME'`},
		{"printf", "'<%s>'", `"*"`, `\*`, "'?'", "[a]", "~", "{x,y}", "!", "a;true", "&&", "printf", `"(%s)"`, "`echo tick`"},
		{"printf '<%s>'", "'line\nend'", "'tab\tx'", `'back\slash'`, "#no"},
		{"cat <<E\nhere $((40+2))\nE"},
		{"export K=\"v w\";", "printf '%s' \"$K\""},
		{"printf %s " + strings.Repeat("x", 100_000) + " | wc -c"},
	} {
		text := strings.Join(words, " ")
		local := exec.Command("/bin/bash", "-c", text)
		local.Env, local.Dir = []string{"HOME=/root", "PATH=" + os.Getenv("PATH")}, t.TempDir()
		want, err := local.Output()
		if err != nil {
			t.Fatalf("%.100s: %v", text, err)
		}
		r := l.ssh(t, job{}, append([]string{"w0"}, words...)...).Wait(t)
		if r.Code != 0 || r.Stdout != string(want) {
			t.Errorf("%.100q gave %d, %q, not %q: %s", text, r.Code, r.Stdout, want, r.Stderr)
		}
	}
}

// What a command leaves behind lives on when its ssh has ended, and ends when ssh is killed.
func TestSSHLeavesWhatWasLeft(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	r := l.ssh(t, job{}, "w1", "sleep 1000 >/dev/null 2>&1 & echo $!").Wait(t)
	if r.Code != 0 {
		t.Fatalf("ended with %d: %s", r.Code, r.Stderr)
	}
	pid := strings.TrimSpace(r.Stdout)
	if r := l.ssh(t, job{}, "w1", "kill", pid).Wait(t); r.Code != 0 {
		t.Errorf("process %s is gone: %s", pid, r.Stderr)
	}
	s := l.ssh(t, job{}, "w1", "sleep 1001 & echo ready; wait")
	s.Says(t, "ready")
	s.Signal(t, syscall.SIGKILL)
	s.Wait(t)
	testlab.Eventually(t, "a command ends with its ssh", func() bool { return len(l.matching(t, "w1", "sleep 1001")) == 0 })
}
