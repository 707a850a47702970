package main

import (
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// Under nohup the end of a terminal is nothing to a run, and nothing to its ranks.
func TestNohup(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	signals, stop := new(process).passedOn(syscall.SIGUSR1)
	defer stop()
	for _, s := range []syscall.Signal{syscall.SIGHUP, syscall.SIGUSR1} {
		if err := syscall.Kill(syscall.Getpid(), s); err != nil {
			t.Fatal(err)
		}
	}
	if s := <-signals; s != syscall.SIGUSR1 {
		t.Errorf("got %v", s)
	}
}

// A signal to end that comes before its command listens is the command's, and of commands that never take one the process's end, as ever.
func TestSignalBeforeTheCommandListens(t *testing.T) {
	for _, line := range []string{"mpiup agent", "mpiup up", "sshd -D", "mpirun.openmpi -n 2 a", "-mpiexec -n 2 a", "mpiup mpirun -n 2 a", "/usr/bin/torchrun a", "mpiup launcher -- a"} {
		p := new(process)
		p.listenEarly(strings.Fields(line))
		if p.early == nil {
			t.Errorf("%s does not listen", line)
			continue
		}
		if s := p.earlier(); s != nil {
			t.Errorf("%s: %v came from nobody", line, s)
		}

		p.listenEarly(strings.Fields(line))
		if err := syscall.Kill(syscall.Getpid(), syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		for len(p.early) == 0 { // it comes by a thread of the runtime's
			runtime.Gosched()
		}
		if line == "mpiup agent" {
			ctx, cancel := p.untilEnded()
			if ctx.Err() == nil {
				t.Error("an agent does not end by a signal that came before")
			}
			cancel()
			continue
		}
		signals, stop := p.passedOn()
		if s := <-signals; s != syscall.SIGTERM {
			t.Errorf("%s: %v", line, s)
		}
		stop()
	}
	for _, line := range []string{"mpiup ps", "mpiup keygen", "mpiup", "ssh w0 agent", "mpiup version"} {
		p := new(process)
		if p.listenEarly(strings.Fields(line)); p.early != nil {
			t.Errorf("%s listens", line)
		}
	}
}
