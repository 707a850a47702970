package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/svg"
)

// Who had a processor.
const (
	byRank = iota
	byAgent
	byLauncher
	byOther // the kernel's own threads, and what else runs
	byNobody
	kinds
)

var kindNames = [kinds]string{"ranks", "agents", "launcher", "others", "idle"}

// turn is one stay of a process on a processor; times are in seconds of CLOCK_MONOTONIC.
type turn struct {
	from, to float64
	pid      int
	comm     string
}

// happening is a process's end, a signal to it (of), or a program that it began.
type happening struct {
	at       float64
	what     string // sched_process_exit, sched_process_exec or signal_generate
	of, sig  int
	program  string
	lastDies bool // of all threads
}

type trace struct {
	turns      []turn
	happenings []happening
}

// traced draws who has the processors in a start of 16 ranks on 16 hosts, and after a kill -9 of one of eight.
func (b *bench) traced(ctx context.Context, l *lab) error {
	for range 3 {
		if _, _, err := l.timed(ctx, 16, 1, b.hello); err != nil {
			return err
		}
	}
	start, err := b.trace(ctx, func() (from, to float64, launcher int, err error) {
		cmd := l.job(ctx, 16, 1, b.hello)
		cmd.Env = environ(time.Now())
		var text bytes.Buffer
		cmd.Stdout = &text
		from = monotonic()
		if err = cmd.Run(); err != nil {
			return
		}
		barrier, err := toBarrier(text.String())
		return from, from + barrier/1000, cmd.Process.Pid, err
	})
	if err != nil {
		return err
	}
	deaths := make([]panel, 0, b.rounds)
	for range max(3, b.rounds) {
		var victim int
		death, err := b.trace(ctx, func() (from, to float64, launcher int, err error) {
			cmd := l.job(ctx, 4, 2, "sleep", "54321")
			cmd.Env = environ(time.Now())
			if err = cmd.Start(); err != nil {
				return
			}
			ranks, err := l.untilRanks(ctx, 8, "sleep 54321")
			if err != nil {
				return
			}
			victim, from = ranks[len(ranks)-1], monotonic()
			if err = syscall.Kill(victim, syscall.SIGKILL); err == nil {
				_ = cmd.Wait() // with the code of a rank that was killed
			}
			return from, monotonic(), cmd.Process.Pid, err
		})
		if err != nil {
			return err
		}
		death.mark(victim)
		deaths = append(deaths, death)
	}
	slices.SortFunc(deaths, func(a, b panel) int { return int(1e6 * (a.to - a.from - b.to + b.from)) })
	death := deaths[len(deaths)/2]
	start.title = fmt.Sprintf("A start of 16 ranks of MPICH on 16 hosts, to the first barrier: %.0f ms on %d processors", 1000*(start.to-start.from), runtime.NumCPU())
	death.title = fmt.Sprintf("kill -9 of one of 8 ranks on 4 hosts, to the launcher's end: %.1f ms, the median of %d", 1000*(death.to-death.from), len(deaths))
	for _, p := range []panel{start, death} {
		fmt.Println(p.title)
		for _, m := range p.marks {
			fmt.Printf("  %6.2f ms  %s\n", 1000*(m.at-p.from), m.text)
		}
		for kind, s := range p.sums() {
			fmt.Printf("  %6.2f ms of CPU, %4.1f %%  %s\n", 1000*s, 100*s/p.time(), kindNames[kind])
		}
	}
	return draw(b.picture, start, death)
}

// trace runs one thing while perf notes who runs where.
func (b *bench) trace(ctx context.Context, run func() (from, to float64, launcher int, err error)) (p panel, err error) {
	file := filepath.Join(b.dir, "perf.data")
	orders, order, err := os.Pipe()
	if err != nil {
		return p, err
	}
	answer, answers, err := os.Pipe()
	if err != nil {
		return p, err
	}
	perf := exec.CommandContext(ctx, "perf", "record", "-q", "-k", "CLOCK_MONOTONIC", "-m", "2048", "-D", "-1", "--control", "fd:3,4", "-o", file, "-a",
		"-e", "sched:sched_switch", "-e", "sched:sched_process_exit", "-e", "sched:sched_process_exec", "-e", "signal:signal_generate")
	perf.Stderr = os.Stderr // why it could not
	perf.ExtraFiles = []*os.File{orders, answers}
	if err := perf.Start(); err != nil {
		return p, fmt.Errorf("perf, which Debian's linux-perf has: %w", err)
	}
	orders.Close()
	answers.Close()
	acks := bufio.NewReader(answer)
	tell := func(what string) error {
		if _, err := order.WriteString(what + "\n"); err != nil {
			return err
		}
		_, err := acks.ReadString('\n')
		return err
	}
	if err = tell("enable"); err == nil {
		p.from, p.to, p.launcher, err = run()
	}
	err = errors.Join(err, tell("disable"), perf.Process.Signal(os.Interrupt))
	_ = perf.Wait() // ended by the signal
	order.Close()
	answer.Close()
	if err != nil {
		return p, err
	}
	text, err := exec.CommandContext(ctx, "perf", "script", "-i", file, "-F", "comm,pid,tid,cpu,time,event,trace").Output()
	if err != nil {
		return p, fmt.Errorf("perf script: %w", err)
	}
	p.trace = readTrace(string(text))
	p.program = b.hello
	return p, nil
}

func monotonic() float64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t)
	return float64(t.Sec) + float64(t.Nsec)/1e9
}

var (
	traceLine = regexp.MustCompile(`^\s*(\S.*?)\s+(-?\d+)/(-?\d+)\s+\[(\d+)\]\s+([\d.]+):\s+\w+:(\w+):\s+(.*)$`)
	traceWord = regexp.MustCompile(`(\w+)=(\S+)`)
)

// readTrace reads what perf script prints. The head of a line of sched_switch names who leaves the processor.
func readTrace(text string) (t trace) {
	since := map[string]float64{}
	for line := range strings.Lines(text) {
		m := traceLine.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			continue
		}
		at, _ := strconv.ParseFloat(m[5], 64)
		pid, _ := strconv.Atoi(m[2])
		if m[6] == "sched_switch" {
			if from, ok := since[m[4]]; ok {
				t.turns = append(t.turns, turn{from, at, pid, m[1]})
			}
			since[m[4]] = at
			continue
		}
		h := happening{at: at, what: m[6]}
		for _, w := range traceWord.FindAllStringSubmatch(m[7], -1) {
			switch n, _ := strconv.Atoi(w[2]); w[1] {
			case "pid":
				h.of = n
			case "sig":
				h.sig = n
			case "filename":
				h.program = w[2]
			case "group_dead":
				h.lastDies = w[2] == "true"
			}
		}
		t.happenings = append(t.happenings, h)
	}
	return t
}

// panel is one thing that was traced, from and to.
type panel struct {
	trace
	title    string
	from, to float64
	launcher int
	program  string // of ranks
	marks    []mark
}

type mark struct {
	at   float64
	text string
}

// mark notes the stages of a death.
func (p *panel) mark(victim int) {
	var stop, gone, end float64
	for _, h := range p.happenings {
		switch {
		case h.at < p.from:
		case h.what == "sched_process_exit" && h.of == victim:
			p.marks = append(p.marks, mark{h.at, "the rank is dead"})
		case h.what == "signal_generate" && h.sig == int(syscall.SIGTERM) && stop == 0:
			stop = h.at
		case h.what == "signal_generate" && h.sig == int(syscall.SIGTERM):
			gone = h.at
		case h.what == "sched_process_exit" && h.of == p.launcher:
			end = h.at
		}
	}
	p.marks = append(p.marks, mark{stop, "the first other rank is told to stop"}, mark{gone, "the last one is"}, mark{end, "the launcher has said all, and exits"})
}

func (p *panel) kind(t turn) int {
	switch {
	case t.pid == 0 || strings.HasPrefix(t.comm, "swapper"):
		return byNobody
	case t.pid == p.launcher:
		return byLauncher
	case slices.ContainsFunc(p.happenings, func(h happening) bool {
		return h.what == "sched_process_exec" && h.of == t.pid && h.program == p.program
	}):
		return byRank
	case t.comm == "mpiup" || strings.HasPrefix(t.comm, "memfd:"):
		return byAgent
	}
	return byOther
}

// columns shares the time out: seconds of each kind in each of n equal spans.
func (p *panel) columns(n int) (all [][kinds]float64) {
	all = make([][kinds]float64, n)
	span := (p.to - p.from) / float64(n)
	known := map[int]int{}
	for _, t := range p.turns {
		if t.to <= p.from || t.from >= p.to {
			continue
		}
		k, ok := known[t.pid]
		if !ok {
			k = p.kind(t)
			known[t.pid] = k
		}
		for from, to := max(t.from, p.from), min(t.to, p.to); from < to; {
			i := min(int((from-p.from)/span), n-1)
			end := max(min(to, p.from+float64(i+1)*span), from+1e-9)
			all[i][k] += end - from
			from = end
		}
	}
	return all
}

// time is what all processors have had.
func (p *panel) time() float64 { return (p.to - p.from) * float64(runtime.NumCPU()) }

func (p *panel) sums() [kinds]float64 { return p.columns(1)[0] }

var traceStyle = svg.Style{Light: `text{font:13px sans-serif;fill:#1f2328}
.page{fill:#ffffff}
.k0{fill:#8c959f}
.k1{fill:#0969da}
.k2{fill:#cf222e}
.k3{fill:#bf8700}
.k4{fill:#eaeef2}
.m{stroke:#1f2328}
`, Dark: `text{fill:#e6edf3}
.page{fill:#0d1117}
.k4{fill:#21262d}
.m{stroke:#e6edf3}
`}

// draw writes a picture of panels: a column a span, as high as the processors have time, and those who had it on top of each other.
func draw(file string, panels ...panel) error {
	const columns, wide, high, left = 240, 3, 120, 20
	height := 20
	for _, p := range panels {
		height += high + 70 + 18*len(p.marks)
	}
	pic := svg.New(columns*wide+2*left, height, "Who has the processors while 16 ranks start, and from a rank's death to the launcher's end", traceStyle)
	pic.Rect("page", 0, 0, columns*wide+2*left, height, "")
	y := 24
	for _, p := range panels {
		pic.Text("", left, y, p.title)
		y += 20
		x := left
		for kind, s := range p.sums() {
			pic.Rect("k"+strconv.Itoa(kind), x, y-10, 12, 12, "")
			label := fmt.Sprintf("%s %.0f %%", kindNames[kind], 100*s/p.time())
			pic.Text("", x+16, y, label)
			x += 36 + 8*len(label)
		}
		y += 10
		for i, c := range p.columns(columns) {
			at := float64(y + high)
			for kind, s := range c {
				h := s / p.time() * columns * high
				if top := int(at - h); top < int(at) {
					pic.Rect("k"+strconv.Itoa(kind), left+i*wide, top, wide, int(at)-top, "")
				}
				at -= h
			}
		}
		for _, m := range p.marks {
			at := left + int((m.at-p.from)/(p.to-p.from)*columns*wide)
			pic.Line("m", at, y, at, y+high, 1)
		}
		y += high + 20
		for _, m := range p.marks {
			pic.Text("", left, y, fmt.Sprintf("%.1f ms: %s", 1000*(m.at-p.from), m.text))
			y += 18
		}
		y += 20
	}
	var text bytes.Buffer
	if err := pic.Write(&text); err != nil {
		return err
	}
	return os.WriteFile(file, text.Bytes(), 0o644)
}
