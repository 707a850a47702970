package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// idleAgents measures every agent, with its guard and whatever else it keeps running, while
// nothing happens but gossip.
func (b *bench) idleAgents(ctx context.Context, l *lab) error {
	const span = 20 * time.Second
	processes := make(map[string][]int)
	for _, name := range l.cluster.Workers() {
		ps, err := l.cluster.Processes(name)
		if err != nil {
			return err
		}
		for _, p := range ps {
			processes[name] = append(processes[name], p.Pid)
		}
	}
	before, err := cpuOf(processes)
	if err != nil {
		return err
	}
	select {
	case <-time.After(span):
	case <-ctx.Done():
		return ctx.Err()
	}
	after, err := cpuOf(processes)
	if err != nil {
		return err
	}
	var pss, private, cpu []float64
	for name, pids := range processes {
		var sum memory
		for _, pid := range pids {
			m, err := memoryOf(pid)
			if err != nil {
				return fmt.Errorf("agent on %s: %w", name, err)
			}
			sum.pss += m.pss
			sum.private += m.private
		}
		pss, private = append(pss, sum.pss), append(private, sum.private)
		cpu = append(cpu, 100*(after[name]-before[name])/span.Seconds())
	}
	b.report("an idle agent of 64 with its guard, PSS", "MB", pss, 20)
	b.report("an idle agent of 64 with its guard, private", "MB", private, 0)
	b.report("an idle agent of 64 with its guard, CPU", "% of a core", cpu, 0.5)
	return nil
}

// restedAgent measures what a pod has of an agent and its guard that are alone there, when jobs of 200 MB of output
// are over and the agent has given back what they left: resident sets, since nobody in a pod shares their pages.
func (b *bench) restedAgent(ctx context.Context, l *lab) error {
	const ranks, mb = 4, 50
	if _, _, err := l.timed(ctx, 1, ranks, l.self, "-flood", strconv.Itoa(mb)); err != nil {
		return err
	}
	select {
	case <-time.After(5 * time.Second):
	case <-ctx.Done():
		return ctx.Err()
	}
	name := l.cluster.Workers()[0]
	ps, err := l.cluster.Processes(name)
	if err != nil {
		return err
	}
	var sum float64
	for _, p := range ps {
		m, err := memoryOf(p.Pid)
		if err != nil {
			return fmt.Errorf("agent on %s: %w", name, err)
		}
		sum += m.rss
	}
	b.report("an agent alone with its guard after 200 MB of output, RSS", "MB", []float64{sum}, 20)
	return nil
}

// settles is a little longer than a launcher takes until it gives back what its start has left in memory.
const settles = 12 * time.Second

// launcherMemory measures the launcher of a job of 512 ranks while they run.
func (b *bench) launcherMemory(ctx context.Context, l *lab) error {
	const hosts, ppn = 64, 8
	cmd := l.job(ctx, hosts, ppn, "sleep", "54321")
	cmd.Env = environ(time.Now())
	if err := cmd.Start(); err != nil {
		return err
	}
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}()
	if _, err := l.untilRanks(ctx, hosts*ppn, "sleep 54321"); err != nil {
		return err
	}
	for _, at := range []struct {
		what  string
		pause time.Duration
		most  float64
	}{{"at its start", 0, 0}, {"once it has settled", settles, 17}} {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(at.pause):
		}
		m, err := memoryOf(cmd.Process.Pid)
		if err != nil {
			return fmt.Errorf("launcher: %w", err)
		}
		b.report("the launcher of 512 ranks "+at.what+", PSS", "MB", []float64{m.pss}, at.most)
	}
	return nil
}

// memory is in MB of 1000 kB, as /proc/PID/smaps_rollup counts it.
type memory struct{ rss, pss, private float64 }

func memoryOf(pid int) (memory, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	if err != nil {
		return memory{}, err
	}
	var m memory
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) != 3 || f[2] != "kB" {
			continue
		}
		kb, err := strconv.ParseFloat(f[1], 64)
		if err != nil {
			return memory{}, fmt.Errorf("smaps_rollup: %q", line)
		}
		switch {
		case f[0] == "Rss:":
			m.rss += kb / 1000
		case f[0] == "Pss:":
			m.pss += kb / 1000
		case strings.HasPrefix(f[0], "Private_Clean"), strings.HasPrefix(f[0], "Private_Dirty"):
			m.private += kb / 1000
		}
	}
	return m, nil
}

// cpuOf are the seconds of CPU that each host's processes have used (utime and stime of
// /proc/PID/stat, in hundredths of a second on Linux whatever the kernel's own clock).
func cpuOf(processes map[string][]int) (map[string]float64, error) {
	used := make(map[string]float64)
	for name, pids := range processes {
		for _, pid := range pids {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
			if err != nil {
				return nil, fmt.Errorf("host %s: %w", name, err)
			}
			f := strings.Fields(string(b[strings.LastIndexByte(string(b), ')')+1:]))
			for _, ticks := range f[11:13] {
				n, err := strconv.Atoi(ticks)
				if err != nil {
					return nil, fmt.Errorf("/proc/%d/stat: %q", pid, b)
				}
				used[name] += float64(n) / 100
			}
		}
	}
	return used, nil
}
