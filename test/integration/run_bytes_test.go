package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	testlab "github.com/mpiup/mpiup/test/lab"
)

// latin1 is a word as old files have it in their names: its last byte is no UTF-8.
const latin1 = "caf\xe9"

// latin1Folder is a directory of such a name that all hosts see, with a program that prints its arguments, its directory and $V.
func (l *lab) latin1Folder(t *testing.T) (dir, program string) {
	t.Helper()
	dir = filepath.Join(l.folder(t), latin1)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	program = filepath.Join(dir, latin1+".sh")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nprintf '%s|' \"$*\" \"$PWD\" \"$V\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir, program
}

// Arguments, variables, paths and names are bytes: ranks on hosts get those that the launcher has, however they are given and by whatever
// name the launcher is called.
func TestBytesArrive(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	dir, program := l.latin1Folder(t)
	out := filepath.Join(dir, "out")
	configfile := l.file(t, "-n 1 "+program+" "+latin1+"\n")
	run := func(args ...string) []string {
		return slices.Concat([]string{l.bin, "run", "--key", l.key, "--host", "w0:1,w1:1", "-n", "1"}, args)
	}
	by := func(name string, args ...string) []string { return append([]string{l.link(t, name)}, args...) }
	for _, c := range []struct {
		name string
		argv []string
		env  []string
		dir  string
		want string
	}{
		{"program and argument", run(program, latin1), nil, "", latin1 + "|/||"},
		{"-x with a value", run("-x", "V="+latin1, program), nil, "", "|/|" + latin1 + "|"},
		{"-x by name", run("-x", "V", program), []string{"V=" + latin1}, "", "|/|" + latin1 + "|"},
		{"a variable's name", run("-x", latin1+"=there", "env"), nil, "", latin1 + "=there\n"},
		{"--wdir", run("--wdir", dir, program), nil, "", "|" + dir + "||"},
		{"the launcher's directory", run("./" + latin1 + ".sh"), nil, dir, "|" + dir + "||"},
		{"--checkpoint-dir", run("--checkpoint-dir", dir, "sh", "-c", `printf %s "$MPIUP_CHECKPOINT_DIR"`), nil, "", dir},
		{"--preload-binary", run("--preload-binary", program, latin1), nil, "", latin1 + "|"},
		{"--preload-files", run("--preload-files", latin1+".sh", "sh", "-c", `cd "$MPIUP_FILES" && ls | cat`), nil, dir, latin1 + ".sh\n"},
		{"--wrap", run("--wrap", "0 "+program+" "+latin1, "true"), nil, "", latin1 + " true|/||"},
		{"--output-dir", run("--output-dir", out, "echo", latin1), nil, "", latin1 + "\n"},
		{"a pseudo terminal", run("--pty", program, latin1), nil, "", latin1 + "|/||"},
		{"a run that another launcher may take over", run("--on-launcher-loss", "hold=1m", program, latin1), nil, "", latin1 + "|/||"},
		{"exec", []string{l.bin, "exec", "--key", l.key, "w0", "--", program, latin1}, nil, "", latin1 + "|/||"},
		{"exec, variable and directory", []string{l.bin, "exec", "--key", l.key, "-x", "V=" + latin1, "--wdir", dir, "w0", "--", program}, nil, "",
			"|" + dir + "|" + latin1 + "|"},
		{"ssh", by("ssh", "w0", program+" "+latin1), nil, "", latin1 + "|/root||"},
		{"ssh, SetEnv", by("ssh", "-o", "SetEnv=V="+latin1, "w0", program), nil, "", "|/root|" + latin1 + "|"},
		{"ssh, SendEnv", by("ssh", "-o", "SendEnv=V", "w0", program), []string{"V=" + latin1}, "", "|/root|" + latin1 + "|"},
		{"mpirun", by("mpirun", "-H", "w0,w1", "-n", "1", "-x", "V="+latin1, "-wdir", dir, program, latin1), nil, "", latin1 + "|" + dir + "|" + latin1 + "|"},
		{"mpirun, the launcher's directory", by("mpirun", "-H", "w0,w1", "-n", "1", "./"+latin1+".sh"), nil, dir, "|" + dir + "||"},
		{"mpiexec.hydra, all variables", by("mpiexec.hydra", "-hosts", "w0,w1", "-n", "1", program), []string{"V=" + latin1}, "", "|/|" + latin1 + "|"},
		{"mpiexec.hydra, -genv and -wdir", by("mpiexec.hydra", "-hosts", "w0,w1", "-n", "1", "-genv", "V", latin1, "-wdir", dir, program), nil, "",
			"|" + dir + "|" + latin1 + "|"},
		{"mpiexec.hydra, -configfile", by("mpiexec.hydra", "-hosts", "w0,w1", "-configfile", configfile), nil, "", latin1 + "|/||"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			j := job{dir: c.dir, env: append(c.env, "MPIUP_KEY="+l.key)}
			r := l.command(t, j, c.argv...).Wait(t).OK(t)
			if !strings.Contains(r.Stdout, c.want) {
				t.Errorf("%q, want %q\n%s", r.Stdout, c.want, r.Stderr)
			}
		})
	}
}

// What people are shown of such names has the byte's escape, and is all there: a rank whose name the kernel cut within a character hides
// none of the others.
func TestBytesAreShown(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	dir, program := l.latin1Folder(t)
	sleep, err := exec.LookPath("sleep")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(sleep)
	if err != nil {
		t.Fatal(err)
	}
	cut := filepath.Join(dir, "fourteen bytesé") // of the last character the kernel has room for one byte (TASK_COMM_LEN)
	if err := os.WriteFile(cut, text, 0o755); err != nil {
		t.Fatal(err)
	}
	p := l.start(t, job{hosts: "w0:1,w1:1", args: []string{"-n", "2", cut, "300"}})
	testlab.Eventually(t, "both ranks show", func() bool {
		shown := 0
		for _, row := range l.ps(t, "w0,w1") {
			if row.Program == `fourteen bytes\xc3` {
				shown++
			}
		}
		return shown == 2
	})
	if r := l.mpiup(t, "stacks", "--key", l.key, "--host", "w0,w1").OK(t); !strings.Contains(r.Stdout, "ranks 0-1 (w0, w1), 2 of 2") {
		t.Errorf("stacks: %s", r.Stdout)
	}
	if r := l.mpiup(t, "peers", "--key", l.key, "--host", "w0,w1").OK(t); strings.Count(r.Stdout, "fourteen bytesé") != 2 {
		t.Errorf("peers: %s", r.Stdout)
	}
	p.Signal(t, syscall.SIGTERM)
	p.Wait(t)

	report := filepath.Join(dir, "report")
	r := l.run(t, job{hosts: "w0:1,w1:1", args: []string{"-n", "2", "--report", report, "sh", "-c", "exit 3", latin1}})
	r.Fails(t, 3, "mpiup report "+`$'`+strings.ReplaceAll(report, latin1, `caf\xe9`)+`'`)
	if r := l.mpiup(t, "report", report).OK(t); !strings.Contains(r.Stdout, `exit 3 caf\xe9`) {
		t.Errorf("report: %s", r.Stdout)
	}
	if r := l.mpiup(t, "env", "-n", "1", "-x", "V="+latin1, "--", program).OK(t); !strings.Contains(r.Stdout, `V=caf\xe9 `) {
		t.Errorf("env: %s", r.Stdout)
	}
	if r := l.mpiup(t, "check-image", program); !strings.Contains(r.Stdout, `caf\xe9.sh is here, for sh`) {
		t.Errorf("check-image: %s", r.Stdout)
	}
}

// An agent whose own variables have such bytes says why a program is not started, and starts others.
func TestBytesOfAnAgent(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	dir, program := l.latin1Folder(t)
	a := testlab.NewLoopback(t, l.bin, []string{"PATH=" + dir + ":/usr/bin:/bin", "TMPDIR=" + dir, "V=" + latin1}, "--key", l.key, "--http", "off")
	run := func(args ...string) result {
		cmd := exec.Command(l.bin, slices.Concat([]string{"run", "--key", l.key, "--host", a.Addr, "-n", "1"}, args)...)
		cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/bin:/bin", "HOME=/"}
		return testlab.Run(t, testlab.Bound, cmd)
	}
	run("nowhere").Fails(t, 246, "nowhere: program not found on PATH ("+strings.ReplaceAll(dir, latin1, `caf\xe9`)+":")
	run("no"+latin1).Fails(t, 246, `nocaf\xe9: program not found on PATH`)
	run("--wdir", "/no"+latin1, "true").Fails(t, 247, `/nocaf\xe9: the working directory does not exist`)
	if r := run(filepath.Base(program), latin1).OK(t); r.Stdout != latin1+"|/|"+latin1+"|" {
		t.Errorf("%q\n%s", r.Stdout, r.Stderr)
	}
}

// The look at a program that decides which protocol it is spoken to by finds it in such a directory, too.
func TestBytesOfProgramsOfMPI(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	dir, _ := l.latin1Folder(t)
	for library, exe := range map[string]string{"MPICH": l.program(t, "hello"), "Open MPI": l.openMPI(t, "hello")} {
		text, err := os.ReadFile(exe)
		if err != nil {
			t.Fatal(err)
		}
		program := filepath.Join(dir, library+latin1)
		if err := os.WriteFile(program, text, 0o755); err != nil {
			t.Fatal(err)
		}
		r := l.run(t, job{hosts: "w0:1,w1:1", args: []string{"-v", "-n", "2", program}})
		if r.Code != 0 || !strings.Contains(r.Stderr, "since it loads "+library) || strings.Count(r.Stdout, " of 2 on ") != 2 {
			t.Errorf("%s: ended with %d and printed %q\n%s", library, r.Code, r.Stdout, r.Stderr)
		}
	}
}
