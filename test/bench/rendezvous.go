package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/test/netns"
	"github.com/mpiup/mpiup/test/rendezvous"
)

// meetAsRank is a rank that asks what Horovod's asks in its first and largest scope, when all ranks are there.
func meetAsRank(start string) error {
	var n [2]int
	for i, name := range []string{"HOROVOD_RANK", "HOROVOD_SIZE"} {
		var err error
		if n[i], err = strconv.Atoi(os.Getenv(name)); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	scope := rendezvous.Scope{Name: "global", Rank: n[0], Size: n[1]}
	c := &rendezvous.Client{Server: net.JoinHostPort(os.Getenv("HOROVOD_GLOO_RENDEZVOUS_ADDR"), os.Getenv("HOROVOD_GLOO_RENDEZVOUS_PORT")),
		Value: func(_, _ string, bytes int) []byte {
			return binary.LittleEndian.AppendUint32(make([]byte, 0, bytes+4), uint32(scope.Rank))[:bytes]
		},
		Seen: func(_, key string, value []byte) error {
			if i, err := strconv.Atoi(key); err == nil && (len(value) < 4 || int(binary.LittleEndian.Uint32(value)) != i) {
				return fmt.Errorf("rank %d's value is %d bytes, of another rank", i, len(value))
			}
			return nil
		}}
	fmt.Println("ready")
	f, err := os.Open(start) // a pipe with a name: waits for who writes there
	if err != nil {
		return err
	}
	defer f.Close()
	begin := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), meetingTime)
	defer cancel()
	if err = c.Meet(ctx, scope); err == nil {
		err = c.Finish(ctx, scope)
	}
	how := "met"
	if ctx.Err() != nil {
		how = "gave up"
	} else if err != nil {
		return err
	}
	fmt.Printf("%s, %d %d %d\n", how, begin.UnixNano(), time.Now().UnixNano(), c.Asked)
	return nil
}

// meetingTime bounds a rendezvous. Horovod's own ranks give up after 30 s without the next one's address.
const meetingTime = 5 * time.Minute

// met is a rendezvous of all ranks, and the CPU time that its servers took.
type met struct {
	seconds, asked, cpu float64
	ranks               int // that met all others in time
}

// meets has the ranks of a job meet, started by mpiup, at a server with pids. env names it; none is mpiup's own.
func (l *lab) meets(ctx context.Context, hosts, ppn int, pids []int, env ...string) (met, error) {
	ctx, cancel := context.WithTimeout(ctx, 9*time.Minute)
	defer cancel()
	start := filepath.Join(l.b.dir, "start")
	if err := errors.Join(os.RemoveAll(start), syscall.Mkfifo(start, 0o600)); err != nil {
		return met{}, err
	}
	args := []string{"--env", "horovod"}
	for _, v := range env {
		args = append(args, "-x", v)
	}
	cmd := l.job(ctx, hosts, ppn, append(args, l.self, "-rendezvous", start)...)
	cmd.Env = environ(time.Now())
	out, err := cmd.StdoutPipe()
	if err != nil {
		return met{}, err
	}
	var errs bytes.Buffer
	cmd.Stderr = &errs
	if err := cmd.Start(); err != nil {
		return met{}, err
	}
	ready, ended, all := 0, 0, 0
	var first, last, asked int64
	var before, after float64
	var open *os.File
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if lines.Text() == "ready" {
			if ready++; ready == hosts*ppn {
				if before, err = cpuSum(pids); err == nil {
					open, err = os.OpenFile(start, os.O_RDWR, 0)
				}
				if err != nil {
					cancel()
					break
				}
			}
			continue
		}
		how, numbers, _ := strings.Cut(lines.Text(), ", ")
		var begin, end, n int64
		if _, e := fmt.Sscan(numbers, &begin, &end, &n); e == nil {
			if how == "met" {
				all++
			}
			if ended++; ended == 1 || begin < first {
				first = begin
			}
			last, asked = max(last, end), asked+n
			if ended == hosts*ppn {
				if after, err = cpuSum(pids); err != nil {
					break
				}
			}
		}
	}
	if open != nil {
		open.Close()
	}
	if e := cmd.Wait(); err != nil || e != nil || ended != hosts*ppn {
		return met{}, fmt.Errorf("%d of %d ranks met: %w: %.2000s", ended, hosts*ppn, errors.Join(err, e), errs.Bytes())
	}
	return met{float64(last-first) / 1e9, float64(asked), after - before, all}, nil
}

func cpuSum(pids []int) (seconds float64, err error) {
	used, err := cpuOf(map[string][]int{"": pids})
	return used[""], err
}

// rendezvousServer runs Horovod's own on the launcher's host, and says where.
func (l *lab) rendezvousServer(ctx context.Context, hosts, ppn int) (env []string, pid int, stop func(), err error) {
	cmd := l.cluster.Command(ctx, netns.Launcher, l.b.horovod, filepath.Join(l.b.scripts, "server.py"), fmt.Sprintf("%dx%d", hosts, ppn))
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, 0, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, 0, nil, err
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, 0, nil, err
	}
	stop = func() { in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() }
	port, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return nil, 0, nil, fmt.Errorf("the rendezvous server of Horovod: %w", err)
	}
	return []string{"HOROVOD_GLOO_RENDEZVOUS_ADDR=" + l.cluster.Addr(netns.Launcher).String(), "HOROVOD_GLOO_RENDEZVOUS_PORT=" + strings.TrimSpace(port)}, cmd.Process.Pid, stop, nil
}

// rendezvouses compares the key-value server of mpiup's agents with Horovod's, for the same clients.
func (b *bench) rendezvouses(ctx context.Context, l *lab, hosts, ppn, rounds int) error {
	var seconds, rates, cpu [2][]float64
	var agents []int
	for _, a := range l.agents {
		agents = append(agents, a.Process.Pid)
	}
	sides := 2
	if b.horovod == "" {
		sides = 1
	}
	for range rounds {
		for i := range sides {
			var env []string
			pids, stop := agents, func() {}
			if i == 1 {
				var pid int
				var err error
				if env, pid, stop, err = l.rendezvousServer(ctx, hosts, ppn); err != nil {
					return err
				}
				pids = []int{pid}
			}
			m, err := l.meets(ctx, hosts, ppn, pids, env...)
			stop()
			if err != nil {
				return err
			}
			if m.ranks < hosts*ppn {
				fmt.Printf("%s: %d ranks had not met all others after %v\n", []string{"mpiup", "Horovod's server"}[i], hosts*ppn-m.ranks, meetingTime)
			}
			seconds[i], rates[i], cpu[i] = append(seconds[i], m.seconds), append(rates[i], m.asked/m.seconds), append(cpu[i], 1000*m.cpu/m.asked)
		}
	}
	what := fmt.Sprintf("Gloo rendezvous of %d clients", hosts*ppn)
	b.report(what+": requests", "per s", rates[0], 0)
	b.report(what+": agents' CPU time for one", "ms", cpu[0], 0)
	if b.horovod == "" {
		b.report(what, "s", seconds[0], 0)
		return nil
	}
	b.report(what+": requests, Horovod's server", "per s", rates[1], 0)
	b.report(what+": its CPU time for one", "ms", cpu[1], 0)
	b.compare(what, "s", seconds[0], "Horovod's server", seconds[1], 1)
	return nil
}
