package main

import (
	"os/signal"
	"syscall"
	"testing"
)

// Under nohup the end of a terminal is nothing to a run, and nothing to its ranks.
func TestNohup(t *testing.T) {
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	signals, stop := passedOn(syscall.SIGUSR1)
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
