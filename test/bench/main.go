// Command bench measures mpiup on hosts that are network namespaces of this machine: how long a job takes to start, how
// fast output comes, how soon a failure ends a job, and what agents and launcher need. Where torch and Horovod are
// installed, it compares with their launchers. test/bench/peers.sh compares with those of MPI.
//
// How it is run:
//
//	make bench                 all of it, by bench.sh, which judges the numbers by goals.sh
//	make bench ROUNDS=3        fewer runs of each kind than seven
//	make bench-crowd           runs over 64 to 1,000 hosts alone
//	make bench-peers           installs what make bench compares with
//
// It needs root, a compiler of MPICH, and a quiet machine. On fewer than four cores bench.sh judges nothing.
// CI does not run it; the package's own tests, of the scripts that judge, need nothing.
//
// Times count from just before mpiup run is executed. A number is the median of -rounds, in turn with the others of its
// cluster, after one round of warm-up; in parentheses the least and the greatest. docs/performance.md has the results.
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	flood := flag.Int("flood", 0, "write so many `MB` of lines to standard output, and nothing else")
	mpiup := flag.String("mpiup", "bin/mpiup", "the `binary` to measure")
	hello := flag.String("hello", "", "examples/hello, compiled; empty: no MPI program")
	rounds := flag.Int("rounds", 7, "`runs` of each kind")
	only := flag.String("only", "start,flood,kill,memory", "what to measure; there are also watch,crowd,trainings,restarts,torchrestarts,rendezvous64,rendezvous512,looking,trace,skeleton")
	watched := flag.String("watched", "", "test/mpi/watched.c, compiled, for watch")
	pairs := flag.Int("pairs", 0, "`runs` of watch with --watch-ranks and without; 0: as many as -rounds, and as fit into a minute")
	sinks := flag.Bool("sink", false, "take what runs send by OTLP, and nothing else")
	meet := flag.String("rendezvous", "", "be a rank that meets the others as Horovod does, once this `pipe` is written to, and nothing else")
	bare := flag.String("skeleton", "", "be a launcher of true that does nothing else, over the arguments; or a host; with this `file` of a key and certificate")
	crowds := flag.String("crowds", "64,256,500,512,1000", "`numbers` of hosts of the crowd")
	against := flag.String("against", "", "another `binary` of mpiup, to take turns with in the crowd and in commands")
	within := flag.String("within", "", "a `cgroup` for launchers of the crowd, of version 1; empty: none of their own")
	horovod := flag.String("horovod", "", "the `python` of an environment with Horovod; empty: it is not compared with")
	torch := flag.String("torch", "", "the `python` of an environment with torch; empty: no restart of its trainings is measured")
	most := flag.Duration("most", 0, "`how long` it may take: failures, which come last, are tried as long as they fit in; 0: as long as they take")
	picture := flag.String("picture", "trace.svg", "the `file` of trace's drawing")
	source := flag.String("source", ".", "the repository's `folder`, which all hosts see")
	flag.Parse()
	if *flood > 0 {
		writeLines(*flood)
		return
	}
	if *bare != "" {
		if err := skeleton(*bare, flag.Args()); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %v\n", err)
			os.Exit(1)
		}
		return
	}
	if *sinks {
		fmt.Fprintf(os.Stderr, "bench: %v\n", sink())
		os.Exit(1)
	}
	if *meet != "" {
		if err := meetAsRank(*meet); err != nil {
			fmt.Fprintf(os.Stderr, "bench: %v\n", err)
			os.Exit(1)
		}
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	b := &bench{mpiup: *mpiup, hello: *hello, rounds: *rounds, only: strings.Split(*only, ","), horovod: *horovod, torch: *torch, against: *against, within: *within,
		begun: time.Now(), most: *most, watched: *watched, pairs: *pairs, picture: *picture,
		scripts: filepath.Join(*source, "test", "bench"), examples: filepath.Join(*source, "examples")}
	err := b.count(*crowds)
	if err == nil {
		err = b.run(ctx)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "bench: %v\n", err)
		os.Exit(1)
	}
}

// bench is what is to be measured, and how.
type bench struct {
	mpiup, hello string
	rounds       int
	only         []string
	horovod      string // a Python
	torch        string // another
	crowds       []int  // numbers of hosts
	against      string // another binary; "": none
	within       string // a cgroup; "": none
	watched      string // a program
	pairs        int    // 0: rounds
	picture      string // a file to be written
	scripts      string // folders
	examples     string
	dir          string
	missed       int
	begun        time.Time
	most         time.Duration // 0: no bound
}

// fits says that something that takes so long may begin.
func (b *bench) fits(d time.Duration) bool { return b.most == 0 || time.Since(b.begun)+d <= b.most }

// count reads the crowds' numbers of hosts.
func (b *bench) count(list string) error {
	for _, text := range strings.Split(list, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > 10000 {
			return fmt.Errorf("-crowds %s: numbers of hosts, from 1 to 10000", list)
		}
		b.crowds = append(b.crowds, n)
	}
	return nil
}

func (b *bench) run(ctx context.Context) error {
	for _, p := range []*string{&b.mpiup, &b.against, &b.hello, &b.watched, &b.scripts, &b.examples} {
		if *p == "" {
			continue
		}
		abs, err := filepath.Abs(*p)
		if err != nil {
			return err
		}
		*p = abs
	}
	var err error
	if b.dir, err = os.MkdirTemp("", "mpiup-bench-"); err != nil {
		return err
	}
	defer os.RemoveAll(b.dir)
	fmt.Printf("%-58s %-24s %s\n", "mpiup alone", "median (least-greatest)", "goal")
	if b.wants("command") {
		if err := b.commands(ctx); err != nil {
			return err
		}
	}
	if b.wants("crowd") {
		if err := b.crowded(ctx); err != nil {
			return err
		}
	}
	for _, part := range []struct {
		hosts   int
		of      []string
		measure func(context.Context, *lab) error
	}{
		{4, []string{"watch"}, b.watchCosts}, {2, []string{"trainings"}, b.trainings}, {8, []string{"rendezvous64"}, b.fewMeet},
		{16, []string{"start", "flood", "kill"}, b.small}, {16, []string{"looking"}, b.looking}, {64, []string{"skeleton"}, b.skeletons}, {16, []string{"trace"}, b.traced}, {64, []string{"start", "memory"}, b.large},
		// Last, as long as there is time: a host that is cut off costs whoever does not notice all of mostRest.
		{jobHosts + 1, []string{"restarts", "torchrestarts"}, b.restarts}, {64, []string{"rendezvous512"}, b.manyMeet},
	} {
		if !slices.ContainsFunc(part.of, b.wants) {
			continue
		}
		if err := b.on(ctx, part.hosts, part.measure); err != nil {
			return err
		}
	}
	if b.missed > 0 {
		return fmt.Errorf("%d goals missed", b.missed)
	}
	return nil
}

// on runs a part on a cluster of its own: jobs on few hosts are slower beside many.
func (b *bench) on(ctx context.Context, hosts int, measure func(context.Context, *lab) error) (err error) {
	l, err := newLab(ctx, b, hosts)
	if err != nil {
		return err
	}
	defer func() {
		if e := l.close(); err == nil {
			err = e
		}
	}()
	return measure(ctx, l)
}

func (b *bench) small(ctx context.Context, l *lab) error {
	if b.wants("start") {
		if err := b.starts(ctx, l, "4x2", "16x1"); err != nil {
			return err
		}
	}
	if b.wants("flood") {
		if err := b.floods(ctx, l); err != nil {
			return err
		}
	}
	if b.wants("kill") {
		return b.kills(ctx, l)
	}
	return nil
}

func (b *bench) large(ctx context.Context, l *lab) error {
	if b.wants("memory") { // first: agents that have served nothing yet
		if err := b.idleAgents(ctx, l); err != nil {
			return err
		}
		if err := b.restedAgent(ctx, l); err != nil {
			return err
		}
	}
	if b.wants("start") {
		if err := b.starts(ctx, l, "64x1"); err != nil {
			return err
		}
	}
	if b.wants("memory") {
		if err := b.launcherMemory(ctx, l); err != nil {
			return err
		}
	}
	return nil
}

// manyMeet takes minutes on two cores: 512 clients ask for 1,500 addresses each.
func (b *bench) manyMeet(ctx context.Context, l *lab) error {
	const most = 5 * time.Minute
	if !b.fits(most) {
		fmt.Printf("%-58s %s\n", "Gloo rendezvous of 512 clients", "not measured: no time is left")
		return nil
	}
	return b.rendezvouses(ctx, l, 64, 8, max(1, b.rounds/5))
}

func (b *bench) fewMeet(ctx context.Context, l *lab) error {
	return b.rendezvouses(ctx, l, 8, 8, b.rounds)
}

func (b *bench) wants(what string) bool { return slices.Contains(b.only, what) }

// report prints one line. atMost 0 is no goal; a goal is said with how it is to be read.
func (b *bench) report(what, unit string, values []float64, atMost float64) {
	n := len(values)
	if n == 0 {
		fmt.Printf("%-58s %s\n", what, "-")
		return
	}
	median := median(values)
	goal := ""
	if atMost > 0 {
		goal = fmt.Sprintf("at most %g: ok", atMost)
		if median > atMost {
			goal = fmt.Sprintf("at most %g: MISSED", atMost)
			b.missed++
		}
	}
	fmt.Printf("%-58s %-24s %s\n", what, fmt.Sprintf("%.4g %s (%.4g-%.4g)", median, unit, values[0], values[n-1]), goal)
}

// compare prints both, and the ratio of their medians, which may be atMost.
func (b *bench) compare(what, unit string, ours []float64, peer string, theirs []float64, atMost float64) {
	b.report(what, unit, ours, 0)
	b.report(what+", "+peer, unit, theirs, 0)
	b.report(what+", ratio", "", []float64{median(ours) / median(theirs)}, atMost)
}

// median sorts.
func median(values []float64) float64 {
	slices.Sort(values)
	n := len(values)
	return (values[(n-1)/2] + values[n/2]) / 2
}

// writeLines writes n MB of lines of 80 bytes.
func writeLines(n int) {
	chunk := bytes.Repeat(append(bytes.Repeat([]byte("x"), 79), '\n'), 800)
	for left := n * 1_000_000; left > 0; {
		m, err := os.Stdout.Write(chunk[:min(left, len(chunk))])
		if err != nil {
			return
		}
		left -= m
	}
}
