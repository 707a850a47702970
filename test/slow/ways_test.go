package slow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
)

// Times of a try: each step sleeps or computes so long of itself.
const (
	window = 6 * time.Second
	lasts  = 10 * time.Second
	each   = 100 * time.Millisecond
	// Those of steps that use a processor are shorter than a period of the quota.
	eachOfCPU = 40 * time.Millisecond
)

// way is how the last rank is made slower by a part of what it needs.
type way struct {
	name, kind string // of test/mpi/step.c
	ranks      int
	more       bool // the program itself has more to do
	causes     []string
	flags      []string
	window     time.Duration // 0: the usual one
	// slow makes a host slow, once the rank of the program in dir is there; undo is called at its end.
	slow func(ctx context.Context, host, dir string, part float64) (undo func() error, err error)
}

// ways are all. Where ranks use processors, or wait for them, there are no more than this machine has.
var ways = []way{
	{name: "CPU quota", kind: "cpu", ranks: 2, causes: []string{"its container was throttled"}, slow: quota},
	{name: "neighbour on its CPU", kind: "cpu", ranks: 2, causes: []string{"its threads were ready to run"}, flags: []string{"-x", "STEP_PIN=1"}, slow: neighbour},
	{name: "memory pressure", kind: "memory", ranks: 4, causes: []string{"its container waited for memory", "of its pages a second came from storage"}, slow: pressure},
	{name: "slow network", kind: "network", ranks: 4, causes: []string{"TCP sent"}, slow: network},
	{name: "slow storage", kind: "storage", ranks: 4, causes: []string{"it waited for storage", "its container waited for storage"}, slow: storage},
	{name: "more to compute", kind: "cpu", ranks: 2, causes: []string{"it was computing"}, more: true},
	{name: "more work, asleep", kind: "sleep", ranks: 8, causes: []string{"it neither computed nor waited"}, more: true},
	{name: "more work, asleep", kind: "sleep", ranks: 32, causes: []string{"it neither computed nor waited"}, flags: []string{"-x", "STEP_REST=1"}, more: true},
	{name: "SIGSTOP", kind: "sleep", ranks: 8, causes: []string{"it neither computed nor waited"}, flags: []string{"-x", "STEP_REST=1"}, slow: stops,
		window: 5 * window}, // each of its parts has some stops
}

// parts are by how much a rank is slowed; of the first nothing may be said.
var parts = []float64{0.05, 0.2, 0.5, 1}

// sideBySide says that others may run beside it: it uses no processor.
func (w way) sideBySide() bool { return w.kind != "cpu" }

// windows is the window of its runs, and how long they last where nothing is slow.
func (w way) windows() (one, all time.Duration) {
	one = max(w.window, window)
	return one, time.Duration(float64(lasts) * one.Seconds() / window.Seconds())
}

func (w way) step() time.Duration {
	if w.kind == "cpu" {
		return eachOfCPU
	}
	return each
}

// try makes one.
func (w way) try(ctx context.Context, program string, part float64) (r result, err error) {
	if w.sideBySide() {
		world.alone.RLock()
		defer world.alone.RUnlock()
	} else {
		world.alone.Lock()
		defer world.alone.Unlock()
	}
	host := <-world.free
	defer func() { world.free <- host }()
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	dir, err := os.MkdirTemp(world.dir, "try-")
	if err != nil {
		return r, err
	}
	defer os.RemoveAll(dir)
	to := "none"
	if w.kind == "network" {
		server, err := serve(ctx)
		if err != nil {
			return r, err
		}
		defer server.Close()
		to = server.Addr().String()
	}
	slow, factor := -1, 1.0
	if w.more {
		slow, factor = w.ranks-1, 1+part
	}
	one, all := w.windows()
	steps := int(all.Seconds() / w.step().Seconds() / (1 + part))
	j := job{ranks: w.ranks, onFirst: w.ranks - 1, last: host, window: one, flags: append([]string{"-x", "STEP_SERVER=" + to}, w.flags...),
		program: slices.Concat(world.slowed[program], []string{strconv.Itoa(steps), w.kind, fmt.Sprint(w.step().Seconds()), strconv.Itoa(slow), fmt.Sprint(factor), dir})}
	p, err := j.start(ctx)
	if err != nil {
		return r, err
	}
	undo := func() error { return nil }
	err = p.Until(p.Stdout, fmt.Sprintf("rank %d is there", w.ranks-1))
	if begun := time.Now(); err == nil {
		if w.slow != nil {
			undo, err = w.slow(ctx, host, dir, part)
		}
		if err != nil {
			cancel()
		} else if p.Until(p.Stderr, "waited ") == nil { // the others, or all others have
			r.seconds = time.Since(begun).Seconds()
		}
	}
	end, endErr := p.End()
	if err = errors.Join(err, endErr, undo()); err == nil && end.Code != 0 {
		err = fmt.Errorf("code %d\n%s", end.Code, end.Stderr)
	}
	if err == nil {
		err = r.measure(w, end.Stdout)
	}
	if r.judge(w, part, said(end.Stderr)); r.named != "right" || r.cause != "right" {
		r.whole = end.Stderr
	}
	r.load, _ = lab.Load()
	return r, err
}

// serve answers each 64 KiB with a byte, on the launcher's host.
func serve(ctx context.Context) (net.Listener, error) {
	l, err := world.cluster.Listen(netns.Launcher, "tcp", world.cluster.Addr(netns.Launcher).String()+":0")
	if err != nil {
		return nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			context.AfterFunc(ctx, func() { c.Close() })
			go func() {
				for {
					if _, err := io.CopyN(io.Discard, c, 64<<10); err != nil {
						return
					}
					if _, err := c.Write([]byte{1}); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l, nil
}

// quota lets the host use less than the processor that its rank wants.
func quota(_ context.Context, host, _ string, part float64) (func() error, error) {
	return func() error { return world.cluster.Throttle(host, 0) }, world.cluster.Throttle(host, 1/(1+part))
}

// neighbour puts a program on the rank's processor that takes its part of it. Weights are those of the kernel's sched_prio_to_weight, of
// 1,024 for the rank: niceness counts within a group of the scheduler, which the whole host is.
func neighbour(ctx context.Context, host, _ string, part float64) (func() error, error) {
	nice := map[float64]string{0.05: "13", 0.2: "7", 0.5: "3", 1: "0"}[part]
	ctx, cancel := context.WithCancel(ctx)
	p, err := lab.Start(world.cluster.Command(ctx, host, "taskset", "-c", "1", "nice", "-n", nice, "sh", "-c", "while :; do :; done"))
	return func() error {
		cancel()
		if p != nil {
			<-p.Done
		}
		return nil
	}, err
}

// Where version 1 of cgroups has limits, and version 2 counts what waited.
const (
	memoryGroups = "/sys/fs/cgroup/memory"
	blockGroups  = "/sys/fs/cgroup/blkio"
	newGroups    = "/sys/fs/cgroup/unified"
)

// pages and bytes are what a step of test/mpi/step.c reads and writes, sent what it sends.
const (
	pages   = 20
	written = 16 << 10
	sent    = 64 << 10
	room    = 24 << 20 // for files, of which the rank wants 64 MiB and programs have some
	missing = 0.6      // of the pages, about
)

// pressure leaves the host less memory than its rank wants, and lets what is missing come back as slowly as it is to be.
func pressure(_ context.Context, host, dir string, part float64) (func() error, error) {
	undo, err := world.cluster.LimitMemory(host, 8<<30)
	if err != nil {
		return nil, err
	}
	name := groupOf(world.cluster.Pid(host), "memory")
	text, err := os.ReadFile(filepath.Join(memoryGroups, name, "memory.stat"))
	if err != nil {
		return undo, err
	}
	var keep int64
	for line := range strings.Lines(string(text)) {
		var n int64
		for _, what := range []string{"total_rss ", "total_shmem "} {
			if rest, ok := strings.CutPrefix(line, what); ok {
				_, err = fmt.Sscan(rest, &n)
				keep += n
			}
		}
	}
	less, err2 := world.cluster.LimitMemory(host, keep+room)
	lift, err3 := throttleDisk(host, dir, "read_iops_device", int(pages*missing/((1+part)*each.Seconds())))
	return func() error { return errors.Join(less(), lift()) }, errors.Join(err, err2, err3)
}

// storage lets the rank write so slowly that a step's writing takes its part of a step: the kernel counts what may be written while it sleeps too.
func storage(_ context.Context, host, dir string, part float64) (func() error, error) {
	return throttleDisk(host, dir, "write_bps_device", int(written/((1+part)*each.Seconds())))
}

// throttleDisk limits the last rank alone for the disk that dir is on: what else is on its host would hold up the file system for all.
func throttleDisk(host, dir, what string, limit int) (func() error, error) {
	group := filepath.Join(blockGroups, fmt.Sprintf("mpiup-slow-%d-%s", os.Getpid(), host))
	undo := func() error {
		return os.WriteFile(filepath.Join(group, "blkio.throttle."+what), []byte(disk(dir)+" 0"), 0)
	}
	err := os.Mkdir(group, 0o755)
	if err == nil {
		world.mu.Lock()
		world.groups = append(world.groups, group)
		world.mu.Unlock()
	} else if !os.IsExist(err) {
		return undo, err
	}
	pid, err := rankIn(host, dir)
	if err == nil {
		err = os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0)
	}
	return undo, errors.Join(err, os.WriteFile(filepath.Join(group, "blkio.throttle."+what), fmt.Appendf(nil, "%s %d", disk(dir), limit), 0))
}

// disk is what a directory is on, by its numbers.
func disk(dir string) string {
	var is unix.Stat_t
	_ = unix.Stat(dir, &is) // it was made by this test
	return fmt.Sprintf("%d:%d", unix.Major(is.Dev), unix.Minor(is.Dev))
}

// rankIn is the pid, outside, of the rank on a host that works in dir.
func rankIn(host, dir string) (int, error) {
	all, err := world.cluster.Processes(host)
	for _, q := range all {
		if strings.Contains(q.Argv, dir) {
			return q.Pid, nil
		}
	}
	return 0, errors.Join(fmt.Errorf("no rank is on %s", host), err)
}

// network gives the host so thin a way that a step's sending takes its part of a step; what does not fit is dropped. Linux's netem is in
// few kernels, and not in that of this machine.
func network(ctx context.Context, host, _ string, part float64) (func() error, error) {
	tc := func(args ...string) error {
		out, err := world.cluster.Command(ctx, host, append([]string{"tc", "qdisc"}, args...)...).CombinedOutput()
		if err != nil {
			err = fmt.Errorf("tc: %w: %s", err, out)
		}
		return err
	}
	rate := fmt.Sprintf("%dbit", int(8*sent/(part*each.Seconds())))
	limit := "24kb"
	if part < 0.1 { // less than what is lost costs: all fits
		limit = "128kb"
	}
	return func() error { ctx = context.Background(); return tc("del", "dev", "eth0", "root") },
		tc("add", "dev", "eth0", "root", "tbf", "rate", rate, "burst", "8kb", "limit", limit)
}

// stops stops the rank now and then.
func stops(ctx context.Context, host, dir string, part float64) (func() error, error) {
	pid, err := rankIn(host, dir)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for ctx.Err() == nil {
			_ = unix.Kill(pid, unix.SIGSTOP) // it may have ended
			rest(ctx, time.Duration(part/(1+part)*float64(time.Second)))
			_ = unix.Kill(pid, unix.SIGCONT)
			rest(ctx, time.Duration(1/(1+part)*float64(time.Second)))
		}
	}()
	return func() error { cancel(); <-over; return nil }, nil
}

func rest(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// groupOf is the cgroup of a process below a controller of version 1; of "" that of version 2.
func groupOf(pid int, controller string) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	for line := range strings.Lines(string(text)) {
		if f := strings.SplitN(strings.TrimSpace(line), ":", 3); len(f) == 3 && slices.Contains(strings.Split(f[1], ","), controller) {
			return f[2]
		}
	}
	return ""
}

// mostShares is what a group can have of the processors beside what else runs on this machine (kernel/sched/sched.h: MAX_SHARES).
const mostShares = "262144"

// asContainers gives each host groups of its own, and shows it only those, as container runtimes do: a group of version 2, whose pressure files
// need no controller, with version 1's of the processors in it.
func asContainers(ctx context.Context) error {
	for _, host := range append([]string{first}, seconds...) {
		if err := world.cluster.Throttle(host, 0); err != nil {
			return err
		}
		if _, err := world.cluster.LimitMemory(host, 8<<30); err != nil { // what ranks have is counted where they begin
			return err
		}
		all, err := world.cluster.Processes(host)
		if err != nil {
			return err
		}
		cpu := groupOf(world.cluster.Pid(host), "cpu")
		if err := os.WriteFile(filepath.Join("/sys/fs/cgroup/cpu", cpu, "cpu.shares"), []byte(mostShares), 0); err != nil {
			return err
		}
		dir := filepath.Join(newGroups, fmt.Sprintf("mpiup-slow-%d-%s", os.Getpid(), host))
		if err := os.MkdirAll(filepath.Join(dir, "cpu"), 0o755); err != nil {
			return err
		}
		world.groups = append(world.groups, dir, filepath.Join(dir, "cpu"))
		pids := []int{world.cluster.Pid(host)}
		for _, p := range all {
			pids = append(pids, p.Pid)
		}
		for _, pid := range pids {
			if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil && !errors.Is(err, unix.ESRCH) {
				return err
			}
		}
		script := fmt.Sprintf("mount --bind /sys/fs/cgroup/cpu%s %[2]s/cpu && mount --rbind %[2]s /sys/fs/cgroup", cpu, dir)
		if out, err := world.cluster.Command(ctx, host, "sh", "-c", script).CombinedOutput(); err != nil {
			return fmt.Errorf("host %s: %w: %s", host, err, out)
		}
	}
	return nil
}
