package reap

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"syscall"
	"time"
)

// roles are programs that tests start.
var roles = map[string]func(args []string) int{
	"supervisor": supervisorRole,
	"agent":      agentRole,
	"churn":      churnRole,
	"connect":    connectRole,
	"holds":      holdsRole,
}

func roleSupervisor(exe string) (*Supervisor, func() error) {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	s := New(Config{Log: log, Subreaper: true, GuardExe: exe, StopGrace: time.Second})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	return s, func() error { cancel(); return <-done }
}

func roleCommand(args []string) Command {
	session := roleSession(os.Getpid()) // no two tests on a machine may share one
	return Command{Argv: args, Env: []string{"PATH=/usr/bin:/bin", "MPIUP_SESSION=" + session}, Session: session,
		Files: []*os.File{nil, os.Stdout, os.Stderr}}
}

// supervisorRole runs a program under a supervisor, as PID 1 if it is, and ends as it did, once
// it has no child left.
func supervisorRole(args []string) int {
	s, end := roleSupervisor("")
	p, err := s.Start(context.Background(), roleCommand(args))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 98
	}
	<-p.Done()
	if err := end(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 97
	}
	if pid, err := peek(); err != syscall.ECHILD {
		fmt.Fprintln(os.Stderr, "child left:", pid, err)
		return 96
	}
	return p.Exit().Status()
}

func roleSession(pid int) string { return fmt.Sprintf("role-of-%d", pid) }

// churnRole starts processes with hidden grandchildren until it is killed.
func churnRole([]string) int {
	s, _ := roleSupervisor("/proc/self/exe")
	for range 4 {
		go func() {
			for {
				p, err := s.Start(context.Background(), roleCommand([]string{"sh", "-c", "setsid sleep 100 & exit 0"}))
				if err == nil {
					<-p.Done()
				}
			}
		}()
	}
	return sayGuard(s)
}

// agentRole starts programs with a guard, says so on stdout, and waits to be killed.
func agentRole(args []string) int {
	s, _ := roleSupervisor("/proc/self/exe")
	for _, script := range args {
		if _, err := s.Start(context.Background(), roleCommand([]string{"sh", "-c", script})); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 98
		}
	}
	return sayGuard(s)
}

// sayGuard prints the guard's pid once it is there.
func sayGuard(s *Supervisor) int {
	for {
		s.mu.Lock()
		p := s.guard
		s.mu.Unlock()
		if p != nil {
			fmt.Println(p.pid)
			select {}
		}
		time.Sleep(time.Millisecond)
	}
}
