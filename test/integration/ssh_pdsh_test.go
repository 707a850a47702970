package integration

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

// outfit is the environment of a program that finds mpiup under the names ssh and mpirun.
func (l *lab) outfit(t *testing.T, env ...string) job {
	t.Helper()
	for _, name := range []string{"ssh", "mpirun"} {
		l.called(t, name, job{}, "--version") // makes the link
	}
	return job{env: append([]string{"PATH=" + filepath.Dir(l.key) + ":/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "MPIUP_KEY=" + l.key}, env...)}
}

func (l *lab) pdsh(t *testing.T, args ...string) *running {
	t.Helper()
	need.Program(t, "pdsh", "pdsh")
	return l.command(t, l.outfit(t, "PDSH_RCMD_TYPE=ssh"), append([]string{"pdsh"}, args...)...)
}

// What pdsh 2.34 (Debian) says and ends with over OpenSSH, it says and ends with over ours.
func TestPdsh(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, c := range []struct {
		name   string
		args   []string
		stdout string // lines, sorted
		stderr string // lines, sorted; with another end the first that is asked for
		code   int
	}{
		{"each host", []string{"-S", "-f", "1024", "-w", "w0,w1,w2", "hostname"}, "w0: w0\nw1: w1\nw2: w2\n", "", 0},
		{"one at a time", []string{"-S", "-f", "1", "-w", "w[0-2]", "hostname"}, "w0: w0\nw1: w1\nw2: w2\n", "", 0},
		{"no names", []string{"-N", "-w", "w[0-1]", "echo out; echo err >&2"}, "out\nout\n", "err\nerr\n", 0},
		{"pdsh's own words", []string{"-S", "-w", "w[0-1]", "echo %h %n %u"}, "w0: w0 0 root\nw1: w1 1 root\n", "", 0},
		{"greatest code", []string{"-S", "-w", "w[0-2]", "n=$(hostname); exit ${n#w}"}, "",
			"pdsh@launcher: w1: ssh exited with exit code 1\npdsh@launcher: w2: ssh exited with exit code 2\n", 2},
		{"codes are not asked for", []string{"-w", "w0", "exit 3"}, "", "pdsh@launcher: w0: ssh exited with exit code 3\n", 0},
		{"signal", []string{"-S", "-w", "w0", "kill -9 $$"}, "", "pdsh@launcher: w0: ssh exited with exit code 255\n", 255},
		{"another user", []string{"-S", "-l", "somebody", "-w", "w0", "id -un"}, "w0: root\n", "", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := l.pdsh(t, c.args...).Wait(t)
			if r.Code != c.code || inOrder(r.Stdout) != c.stdout || inOrder(r.Stderr) != c.stderr {
				t.Errorf("ended with %d, printed %q and %q", r.Code, r.Stdout, r.Stderr)
			}
		})
	}
}

// pdsh's limits end a command on its hosts, and a host that is not there disturbs no other.
func TestPdshTimeouts(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	r := l.pdsh(t, "-S", "-u", "5", "-w", "w[0-1]", "sleep 1004").Wait(t)
	r.Fails(t, 255, "w0: command timeout", "w1: command timeout")
	testlab.Eventually(t, "commands that took too long end on their hosts", func() bool {
		return len(l.matching(t, "w0", "sleep 1004")) == 0 && len(l.matching(t, "w1", "sleep 1004")) == 0
	})
	r = l.pdsh(t, "-S", "-t", "15", "-w", "w0,nobody", "hostname").Wait(t)
	if r.Fails(t, 255, "nobody: mpiup: host nobody: ", "nobody: ssh exited with exit code 255"); r.Stdout != "w0: w0\n" {
		t.Errorf("printed %q", r.Stdout)
	}
}

// Ctrl-C reaches the commands; over OpenSSH they would live on.
func TestPdshInterrupted(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	p := l.pdsh(t, "-b", "-S", "-w", "w[0-2]", "echo up; sleep 1005")
	p.Says(t, "w0: up", "w1: up", "w2: up")
	p.Signal(t, syscall.SIGINT)
	p.Wait(t)
	for _, h := range []string{"w0", "w1", "w2"} {
		testlab.Eventually(t, "a command ends with its pdsh on "+h, func() bool { return len(l.matching(t, h, "sleep 1005")) == 0 })
	}
}

// The two commands of DeepSpeed 0.19.8's pdsh runner (launcher/multinode_runner.py): exports and
// cd in front of what is started, and, when it is interrupted, INT and TERM for pdsh and a pkill
// by the same way.
func TestPdshAsDeepSpeedCallsIt(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	dir := l.folder(t)
	pdsh := []string{"-S", "-f", "1024", "-w", "w0,w1,w2"}
	launch := []string{`export UCX_TLS="tcp,self"; export PYTHONPATH=` + dir + "; ", "cd " + dir + ";", "/bin/sh", "-c",
		`'echo $0 $1 $PWD $UCX_TLS; exec sleep 1006'`, "--world_info=eyJ3MCI6IFswXX0=", "--node_rank=%n", "--master_addr=10.0.0.1"}
	p := l.pdsh(t, append(pdsh, launch...)...)
	for i, h := range []string{"w0", "w1", "w2"} {
		p.Says(t, h+": --world_info=eyJ3MCI6IFswXX0= --node_rank="+string(rune('0'+i))+" "+dir+" tcp,self\n")
	}
	p.Signal(t, syscall.SIGINT)
	p.Signal(t, syscall.SIGTERM)
	kill := l.pdsh(t, append(pdsh, "pkill -f ", `sleep\ 1006`)...).Wait(t)
	if r := p.Wait(t); r.Code != 128+int(syscall.SIGTERM) {
		t.Errorf("pdsh ended with %d", r.Code)
	}
	for _, h := range []string{"w0", "w1", "w2"} {
		testlab.Eventually(t, "nothing is left on "+h, func() bool { return len(l.matching(t, h, "sleep 1006")) == 0 })
	}
	if strings.Contains(kill.Stderr, "mpiup") {
		t.Errorf("the pkill says %s", kill.Stderr)
	}
}
