package main

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// watchFor is how long pairs are made at most where nobody asked for a number of them.
const watchFor = time.Minute

// watchCosts measures what --watch-ranks costs: test/mpi/watched.c with it and without, in turn, each on a host of its own, which change roles
// with each pair. A number is the median over the pairs, of their difference or ratio.
func (b *bench) watchCosts(ctx context.Context, l *lab) error {
	begun := time.Now()
	values := map[string][]float64{}
	for pair := 0; pair <= b.pairs || b.pairs == 0 && pair <= b.rounds && time.Since(begun) < watchFor; pair++ {
		with, without := map[string]float64{}, map[string]float64{}
		for _, ranks := range []string{"1", "2"} {
			turns := []func() error{
				func() error { return l.watched(ctx, pair%2, ranks, with, "--watch-ranks", "--watch-window", "5s") },
				func() error { return l.watched(ctx, 1-pair%2, ranks, without, "--watch-ranks=false") },
			}
			if pair%2 == 1 {
				slices.Reverse(turns)
			}
			for _, turn := range turns {
				if err := turn(); err != nil {
					return err
				}
			}
		}
		if pair == 0 {
			continue // to warm up
		}
		values["call"] = append(values["call"], with["call"]-without["call"])
		for _, name := range []string{"barrier", "pingpong", "hundred", "triad"} {
			values[name] = append(values[name], with[name]/without[name])
		}
	}
	fmt.Printf("--watch-ranks: %d pairs\n", len(values["call"]))
	b.report("--watch-ranks, a wrapped call", "ns", values["call"], 50)
	b.report("--watch-ranks, 2 ranks of 100 collectives a second, ratio", "", values["hundred"], 1.005)
	b.report("--watch-ranks, MPICH to the first barrier, ratio", "", values["barrier"], 1.05)
	b.report("--watch-ranks, ping-pong, ratio", "", values["pingpong"], 1.02)
	b.report("--watch-ranks, triad, ratio", "", values["triad"], 1.02)
	return b.watchMemory(ctx, l)
}

// watched runs test/mpi/watched.c on one host and reads what it prints.
func (l *lab) watched(ctx context.Context, host int, ranks string, into map[string]float64, flags ...string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	cmd := l.jobOn(ctx, l.cluster.Workers()[host]+":"+ranks, ranks, append(flags, l.b.watched)...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.Env = &out, &errs, environ(time.Now())
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("watched: %w: %s", err, errs.Bytes())
	}
	for line := range strings.Lines(out.String()) {
		var name string
		var value float64
		if _, err := fmt.Sscan(line, &name, &value); err == nil {
			into[name] = value
		}
	}
	if len(into) == 0 || strings.Contains(errs.String(), "watched") {
		return fmt.Errorf("watched: %s%s", out.Bytes(), errs.Bytes())
	}
	return nil
}

// watchMemory measures what an agent has more, of its own, while it watches 8 ranks than while it does not, on two hosts that have not watched yet.
func (b *bench) watchMemory(ctx context.Context, l *lab) error {
	var had []float64
	for i, flags := range [][]string{{"--watch-ranks", "--watch-window", "5s"}, nil} {
		host := l.cluster.Workers()[2+i]
		cmd := l.jobOn(ctx, host+":8", "8", append(flags, "sh", "-c", "sleep 6")...)
		cmd.Env = environ(time.Now())
		if err := cmd.Start(); err != nil {
			return err
		}
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
			return ctx.Err()
		}
		sum := 0.0
		ps, err := l.cluster.Processes(host)
		if err != nil {
			return err
		}
		for _, p := range ps {
			if strings.HasPrefix(p.Argv, l.b.mpiup) {
				m, err := memoryOf(p.Pid)
				if err != nil {
					return fmt.Errorf("agent on %s: %w", host, err)
				}
				sum += m.private
			}
		}
		had = append(had, sum)
		_ = cmd.Wait() // it ends with 0 or is cut short by ctx
	}
	b.report("--watch-ranks, an agent of 8 ranks, more private memory", "MB", []float64{had[0] - had[1]}, 3)
	return nil
}
