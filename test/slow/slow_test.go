package slow

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

// result is a line of docs/data/slow.tsv.
type result struct {
	way, program string
	ranks        int
	part         float64
	lost         float64 // of the others' time, by what the ranks' own clocks say
	named, cause string  // right, wrong, nobody; right, other, none
	said         string  // of the cause, in the run's words
	seconds      float64
	load         float64
	commit       string

	whole string // standard error, where something is not right
}

const resultsHead = "way\tprogram\tranks\tslowed by\tothers lost\tnamed\tcause\tsaid\tseconds\tload\tcommit\n"

func (r result) line() string {
	return fmt.Sprintf("%s\t%s\t%d\t%g\t%.3f\t%s\t%s\t%s\t%.1f\t%.1f\t%s\n", r.way, r.program, r.ranks, r.part, r.lost, r.named, r.cause, r.said, r.seconds, r.load, r.commit)
}

func parseResult(line string) (r result, err error) {
	f := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
	if len(f) != 11 {
		return r, fmt.Errorf("a line of %d cells: %q", len(f), line)
	}
	r = result{way: f[0], program: f[1], named: f[5], cause: f[6], said: f[7], commit: f[10]}
	_, err = fmt.Sscan(strings.Join([]string{f[2], f[3], f[4], f[8], f[9]}, " "), &r.ranks, &r.part, &r.lost, &r.seconds, &r.load)
	return r, err
}

// Of less than the first a name is wrong, of more than the second it is missed. "Under 10 % nothing is said" is about a window, and a try has some.
const mayBeSaid, mustBeSaid = 0.08, 0.12

// measure reads what the ranks of a try say of their steps (test/mpi/step.c): a disk or a network is slowed by more than was asked, or by less.
func (r *result) measure(w way, stdout string) error {
	var others []float64
	last := 0.0
	for line := range strings.Lines(stdout) {
		var rank int
		var took float64
		if n, _ := fmt.Sscanf(line, "rank %d worked %f s a step", &rank, &took); n < 2 {
			continue
		} else if rank == w.ranks-1 {
			last = took
		} else {
			others = append(others, took)
		}
	}
	if last == 0 || len(others) != w.ranks-1 {
		return fmt.Errorf("%d of %d ranks told how long they worked:\n%s", len(others), w.ranks, stdout)
	}
	slices.Sort(others)
	r.lost = max(0, 1-others[len(others)/2]/last)
	return nil
}

// judge reads whom a run names, and the cause that it says last.
func (r *result) judge(w way, part float64, names []string) {
	r.way, r.ranks, r.part, r.named, r.cause, r.said = w.name, w.ranks, part, "nobody", "none", "-"
	own := fmt.Sprintf("rank %d (", w.ranks-1)
	for _, text := range names {
		if !strings.HasPrefix(text, own) {
			r.named = "wrong"
		} else if r.named == "nobody" {
			r.named = "right"
		}
		if _, cause, ok := strings.Cut(text, "; "); ok && r.cause != "right" {
			r.cause, r.said = "other", cause
			if slices.ContainsFunc(w.causes, func(c string) bool { return strings.Contains(cause, c) }) {
				r.cause = "right"
			}
		}
	}
	switch {
	case r.lost < mayBeSaid && len(names) > 0:
		r.named = "wrong"
	case r.lost < mustBeSaid && len(names) == 0:
		r.named = "right"
	}
}

// readResults reads a file of them.
func readResults(path string) (list []result, err error) {
	text, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	for line := range strings.Lines(strings.TrimPrefix(string(text), resultsHead)) {
		r, err := parseResult(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		list = append(list, r)
	}
	return list, nil
}

func writeResults(path string, list []result) error {
	text := resultsHead
	for _, r := range list {
		text += r.line()
	}
	return os.WriteFile(path, []byte(text), 0o644)
}

// TestSlow makes the tries that docs/data/slow.tsv lacks and whose "way, program, ranks, part" $MPIUP_SLOW matches, $MPIUP_SLOW_TRIES of each;
// those that may, side by side. None begins after $MPIUP_SLOW_FOR seconds.
func TestSlow(t *testing.T) {
	only, err := regexp.Compile(need.Asked(t, "MPIUP_SLOW", "a pattern, such as '.', as make slow does"))
	if err != nil {
		t.Fatal(err)
	}
	hosted(t)
	if err := asContainers(t.Context()); err != nil {
		t.Fatal(err)
	}
	path, list := data(t)
	end := time.Now().Add(time.Duration(number("MPIUP_SLOW_FOR", 24*3600)) * time.Second)
	at, turns := lab.Commit(), make(chan struct{}, number("MPIUP_SLOW_SIDE", len(seconds)))
	var mu sync.Mutex // guards list
	var wg sync.WaitGroup
	for n := range number("MPIUP_SLOW_TRIES", 1) {
		for _, w := range ways {
			for _, program := range []string{"MPICH", "Open MPI", "Fortran, MPICH", "Fortran, Open MPI", "mpi4py"} {
				for _, part := range parts {
					cell := fmt.Sprintf("%s, %s, %d, %g", w.name, program, w.ranks, part)
					mu.Lock()
					done := 0
					for _, r := range list {
						if r.way == w.name && r.program == program && r.ranks == w.ranks && r.part == part {
							done++
						}
					}
					mu.Unlock()
					if world.slowed[program] == nil || !only.MatchString(cell) || done > n || program == "mpi4py" && w.ranks == 32 { // it does not rest while it waits (test/mpi/step.c)
						continue
					}
					turns <- struct{}{}
					if time.Now().After(end) {
						<-turns
						continue
					}
					wg.Go(func() {
						defer func() { <-turns }()
						r, err := w.try(context.Background(), program, part)
						if err != nil {
							t.Errorf("%s: %v", cell, err)
							return
						}
						r.program, r.commit = program, at
						t.Logf("%s: %s, cause %s: %s, after %.0f s\n%s", cell, r.named, r.cause, r.said, r.seconds, r.whole)
						mu.Lock()
						defer mu.Unlock()
						list = append(list, r)
						if err := writeResults(path, list); err != nil {
							t.Error(err)
						}
					})
				}
			}
		}
	}
	wg.Wait()
}

func data(t *testing.T) (path string, list []result) {
	t.Helper()
	root, err := lab.Root()
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(root, "docs", "data", "slow.tsv")
	if list, err = readResults(path); err != nil {
		t.Fatal(err)
	}
	return path, list
}
