package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
)

// What a failure costs a job of 4x2 ranks: from the fault until the last rank is through its first barrier again, times the
// ranks. A rank stands for one with a GPU of its own, which does nothing in that time; work since the last checkpoint, which
// is lost too, is the program's matter and not counted.
const (
	jobHosts   = 4
	jobRanks   = 8
	faultyHost = "w3"             // the fifth host is a spare
	mostMeet   = time.Minute      // until the ranks of a job have met, before a fault
	mostRest   = 90 * time.Second // until they have again
	mostMisses = 1                // rounds that take longer, after which a fault is tried no more
	mostFault  = 30 * time.Second // of one fault and one survivor, after which no round begins
)

// fault is what happens to a running job. The host that it hits has no part in the next attempt where spare is set.
type fault struct {
	name  string
	spare bool
	hit   func(l *lab, s *survivor) (mend func(context.Context) error, err error)
}

var errNone = errors.New("nothing was there to be killed")

func (b *bench) faults() []fault {
	return []fault{
		{"a rank killed", false, func(l *lab, s *survivor) (func(context.Context) error, error) {
			return nothing, l.kill(faultyHost, func(p netns.Process) bool { return strings.Contains(p.Argv, s.program) && !s.starter(p.Argv) }, 1)
		}},
		{"a host's processes killed", true, func(l *lab, _ *survivor) (func(context.Context) error, error) {
			return l.revive, l.kill(faultyHost, func(netns.Process) bool { return true }, 1<<20)
		}},
		{"a host cut off", true, func(l *lab, _ *survivor) (func(context.Context) error, error) {
			undo, err := l.cluster.CutLink(faultyHost)
			return func(context.Context) error { return undo() }, err
		}},
	}
}

func nothing(context.Context) error { return nil }

// kill kills some processes of a host.
func (l *lab) kill(host string, which func(netns.Process) bool, most int) error {
	all, err := l.cluster.Processes(host)
	if err != nil {
		return err
	}
	n := 0
	for _, p := range all {
		if n < most && which(p) && syscall.Kill(p.Pid, syscall.SIGKILL) == nil {
			n++
		}
	}
	if n == 0 {
		return fmt.Errorf("%s: %w among %v", host, errNone, all)
	}
	return nil
}

// survivor is a way to start a job, and to have it start again.
type survivor struct {
	name     string
	program  string // by which its ranks are known among processes
	commands func(hosts []string) map[string][]string
	starter  func(argv string) bool // a process that has the program's name too, and is no rank
	spare    []string               // a command of the spare host, given once the ranks have met; nil: none
	itself   bool                   // it starts its ranks again; else the bench starts it again when it has ended, as a Job does
	extras   []string               // environment

	back, ended []float64 // per round: until all ranks had met again, and until the launcher had ended, in s
	late        int       // rounds in which they had not within mostRest
	spent       time.Duration
}

var metLine = regexp.MustCompile(`met \d+ (\d{15,20})\n`)

// attempt is what runs of a survivor.
type attempt struct {
	stop context.CancelFunc
	done chan struct{} // closed when all commands have ended

	spare *attempt // whose ranks count too; nil: there is none

	mu  sync.Mutex
	out []byte // guarded by mu
}

func (a *attempt) Write(p []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.out = append(a.out, p...)
	return len(p), nil
}

// times are when ranks have passed the first barrier after a moment.
func (a *attempt) times(after time.Time) (times []int64) {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range metLine.FindAllSubmatch(a.out, -1) {
		if ns, err := strconv.ParseInt(string(m[1]), 10, 64); err == nil && ns > after.UnixNano() {
			times = append(times, ns)
		}
	}
	return times
}

// met is when the last of the ranks had passed it; false: not all have.
func (a *attempt) met(after time.Time) (time.Time, bool) {
	times := append(a.times(after), a.spare.times(after)...)
	if len(times) < jobRanks {
		return time.Time{}, false
	}
	return time.Unix(0, slices.Max(times)), true
}

func (l *lab) attempt(ctx context.Context, s *survivor, commands map[string][]string) (*attempt, error) {
	ctx, stop := context.WithCancel(ctx)
	a := &attempt{stop: stop, done: make(chan struct{})}
	var begun []*netns.Cmd
	var err error
	for host, argv := range commands {
		cmd := l.cluster.Command(ctx, host, argv...)
		cmd.Stdout, cmd.Stderr, cmd.Env = a, a, append(environ(time.Now()), s.extras...)
		cmd.WaitDelay = 50 * time.Millisecond // what outlives a launcher may hold its output
		if err = cmd.Start(); err != nil {
			stop()
			break
		}
		begun = append(begun, cmd)
	}
	go func() {
		defer close(a.done)
		for _, c := range begun {
			_ = c.Wait() // jobs that end here have failed
		}
	}()
	return a, err
}

// until waits for a condition, or that the attempt has ended where over matters.
func (a *attempt) until(ctx context.Context, most time.Duration, after time.Time) (time.Time, bool) {
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(most); ; {
		if at, ok := a.met(after); ok {
			return at, true
		}
		select {
		case <-tick.C:
		case <-late:
			return time.Time{}, false
		case <-ctx.Done():
			return time.Time{}, false
		}
	}
}

// turn lets a fault hit a job once.
func (s *survivor) turn(ctx context.Context, l *lab, f fault) (err error) {
	workers := l.cluster.Workers()
	begun := time.Now()
	a, err := l.attempt(ctx, s, s.commands(workers[:jobHosts]))
	defer func() {
		a.stop()
		for _, h := range workers { // ranks that outlive their launcher
			_ = l.kill(h, func(p netns.Process) bool { return strings.Contains(p.Argv, s.program) }, 1<<20) // there may be none
		}
		<-a.done
	}()
	if err != nil {
		return err
	}
	if _, ok := a.until(ctx, mostMeet, begun); !ok {
		return fmt.Errorf("%s: the ranks do not meet:\n%.3000s", s.name, a.out)
	}
	if s.spare != nil && f.spare {
		b, err := l.attempt(ctx, s, map[string][]string{workers[jobHosts]: s.spare})
		defer func() { b.stop(); <-b.done }()
		if err != nil {
			return err
		}
		a.spare = b
	}
	time.Sleep(time.Second) // the job works for a while
	at := time.Now()
	mend, err := f.hit(l, s)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", s.name, f.name, err)
	}
	defer func() { err = errors.Join(err, mend(ctx)) }()
	left, ended := mostRest, 0.0
	if !s.itself {
		select {
		case <-a.done:
		case <-time.After(mostRest):
			s.late++
			return nil
		}
		ended = time.Since(at).Seconds()
		hosts := workers[:jobHosts]
		if f.spare {
			hosts = slices.Concat(workers[:jobHosts-1], workers[jobHosts:jobHosts+1])
		}
		if a, err = l.attempt(ctx, s, s.commands(hosts)); err != nil {
			return err
		}
		left -= time.Since(at)
	}
	back, ok := a.until(ctx, left, at)
	if !ok {
		s.late++
		return ctx.Err()
	}
	s.back, s.ended = append(s.back, back.Sub(at).Seconds()), append(s.ended, ended)
	return nil
}

// revive starts what a host had lost.
func (l *lab) revive(ctx context.Context) error {
	a := l.cluster.Command(ctx, faultyHost, l.b.mpiup, "agent", "--key", filepath.Join(l.b.dir, "key"))
	if err := a.Start(); err != nil {
		return err
	}
	l.agents = append(l.agents, a)
	if l.sshHost != nil {
		if err := l.sshHost(faultyHost); err != nil {
			return err
		}
	}
	_, _, err := l.timed(ctx, len(l.cluster.Workers()), 1, "true")
	return err
}

// restarts measures what failures cost: a program of Open MPI by mpiup and by its own mpirun over OpenSSH, one of torch by mpiup
// and by torchrun with its elastic agents.
func (b *bench) restarts(ctx context.Context, l *lab) error {
	if b.wants("restarts") {
		if err := b.mpiRestarts(ctx, l); err != nil {
			return err
		}
	}
	if b.wants("torchrestarts") && b.torch != "" {
		return b.torchRestarts(ctx, l)
	}
	return nil
}

func (b *bench) mpiRestarts(ctx context.Context, l *lab) error {
	program := filepath.Join(b.dir, "meets")
	if err := testlab.Compile("mpicc.openmpi", "meets", program); err != nil {
		return err
	}
	exports := []string{"-x", "OMPI_MCA_pml", "-x", "OMPI_MCA_btl"}
	beside := b.ours("mpiup run", program, append([]string{"--restart-beside", "30s"}, exports...)...)
	beside.name += " --restart-beside 30s"
	mpi := []*survivor{b.ours("mpiup run", program, exports...), beside, b.anew("mpiup run", program, exports...)}
	if _, err := exec.LookPath("sshd"); err != nil {
		fmt.Println("mpirun over OpenSSH: not measured, no sshd (make bench-peers)")
	} else {
		stop, err := l.sshd(ctx, l.cluster.Workers()...)
		if err != nil {
			return err
		}
		defer stop()
		mpi = append(mpi, &survivor{name: "mpirun over OpenSSH, started again", program: program, commands: onLauncher(func(list string) []string {
			return []string{"mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "-np", strconv.Itoa(jobRanks), "--host", list, program}
		})})
	}
	for _, s := range mpi {
		s.extras = []string{"OMPI_MCA_pml=ob1", "OMPI_MCA_btl=self,vader,tcp"}
		s.starter = func(argv string) bool { return strings.HasPrefix(argv, "orted") || strings.HasPrefix(argv, "sshd") }
	}
	return b.survive(ctx, l, "Open MPI", mpi)
}

func (b *bench) torchRestarts(ctx context.Context, l *lab) error {
	script := filepath.Join(b.scripts, "meets.py")
	// 5 s is torch's older default. With 0.1 s agents restart ranks that hang before those have failed, and count it for nothing.
	agent := []string{b.torch, "-m", "torch.distributed.run", "--nnodes", strconv.Itoa(jobHosts), "--nproc_per_node", "2", "--max_restarts", "3", "--monitor_interval", "5",
		"--rdzv_backend", "c10d", "--rdzv_id", "meets", "--rdzv_endpoint", "w0:29400", script}
	elastic := &survivor{name: "torchrun's elastic agents", program: script, itself: true,
		starter: func(argv string) bool { return strings.Contains(argv, "torch.distributed.run") },
		commands: func(hosts []string) map[string][]string {
			all := map[string][]string{}
			for _, h := range hosts {
				all[h] = agent
			}
			return all
		}, spare: agent}
	return b.survive(ctx, l, "torch", []*survivor{b.ours("mpiup run", script, b.torch), elastic})
}

// onLauncher is one command, of a list of hosts with their slots.
func onLauncher(argv func(list string) []string) func([]string) map[string][]string {
	return func(hosts []string) map[string][]string {
		return map[string][]string{netns.Launcher: argv(strings.Join(hosts, ":2,") + ":2")}
	}
}

// ours is mpiup, which restarts its ranks itself where it can: then it knows the spare host from the beginning.
func (b *bench) ours(name, program string, before ...string) *survivor {
	s := &survivor{name: name + ", started again", program: program, starter: func(string) bool { return false }}
	run := b.launch()
	help, err := exec.Command(b.mpiup, "run", "--help").Output()
	if s.itself = err == nil && strings.Contains(string(help), "--max-restarts"); s.itself {
		s.name = name + " --max-restarts"
		run = append(run, "--max-restarts", "3", "--spares", "1")
	}
	s.commands = onLauncher(func(list string) []string {
		if s.itself {
			list += ",w" + strconv.Itoa(jobHosts) + ":2" // the spare
		}
		return slices.Concat(run, []string{"--host", list}, before, []string{program})
	})
	return s
}

// launch is what a job of mpiup's begins with.
func (b *bench) launch() []string {
	return []string{b.mpiup, "run", "--key", filepath.Join(b.dir, "key"), "-n", strconv.Itoa(jobRanks)}
}

// anew is mpiup in a Job's hands, which starts a new launcher where one has ended.
func (b *bench) anew(name, program string, before ...string) *survivor {
	return &survivor{name: name + ", started again", program: program, starter: func(string) bool { return false }, commands: onLauncher(func(list string) []string {
		return slices.Concat(b.launch(), []string{"--host", list}, before, []string{program})
	})}
}

// survive measures each fault with all in turn.
func (b *bench) survive(ctx context.Context, l *lab, of string, all []*survivor) error {
	for _, f := range b.faults() {
		for _, s := range all {
			s.back, s.ended, s.late, s.spent = nil, nil, 0, 0
		}
		for range b.rounds + 1 {
			for _, s := range all {
				if s.late == mostMisses || s.spent > mostFault || !b.fits(mostMeet+mostRest) {
					continue
				}
				begun := time.Now()
				if err := s.turn(ctx, l, f); err != nil {
					return err
				}
				s.spent += time.Since(begun)
			}
		}
		for _, s := range all {
			b.loss(fmt.Sprintf("%dx2 %s, %s, %s", jobHosts, of, f.name, s.name), s)
		}
	}
	return nil
}

// loss reports the GPU-seconds that a failure costs.
func (b *bench) loss(what string, s *survivor) {
	if s.late == 0 && len(s.back) == 0 {
		fmt.Printf("%-58s not measured: no time is left\n", what)
		return
	}
	if s.late > 0 {
		fmt.Printf("%-58s in %d of %d rounds not within %v\n", what, s.late, s.late+len(s.back), mostRest)
		return
	}
	if len(s.back) > 1 { // the first round warms up
		s.back, s.ended = s.back[1:], s.ended[1:]
	}
	lost := make([]float64, len(s.back))
	for i, t := range s.back {
		lost[i] = t * jobRanks
	}
	b.report(what, "GPU-s lost", lost, 0)
	if !s.itself {
		b.report("  of these until the launcher had ended", "s", s.ended, 0)
	}
}
