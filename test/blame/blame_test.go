package blame

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/launcher/verdict"
	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

// try is one job of a scenario or habit.
type try struct {
	name, stack string
	n           int
	do          func(ctx context.Context, r *result) error
}

// TestBlame makes $MPIUP_BLAME_TRIES tries of each scenario and habit that $MPIUP_BLAME_ONLY matches, as many side by side as
// $MPIUP_BLAME_SIDE says, and keeps the results in the file $MPIUP_BLAME, with which a later run goes on. No try begins after
// $MPIUP_BLAME_FOR.
func TestBlame(t *testing.T) {
	file := need.Asked(t, "MPIUP_BLAME", "a file of results, as make blame does")
	hosted(t)
	rs, err := read(file)
	if err != nil {
		t.Fatal(err)
	}
	only, err := regexp.Compile(os.Getenv("MPIUP_BLAME_ONLY"))
	if err != nil {
		t.Fatal(err)
	}
	number := func(name string, usual int) int {
		if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
			return n
		}
		return usual
	}
	lasts, err := time.ParseDuration(os.Getenv("MPIUP_BLAME_FOR"))
	if err != nil {
		lasts = 24 * time.Hour
	}
	var todo []try
	lacks := map[string]string{}
	for _, stack := range []string{"torch", "mpi4py"} {
		if lacks[stack] = missing(stack); lacks[stack] != "" {
			t.Log(lacks[stack])
		}
	}
	for _, c := range all(number("MPIUP_BLAME_TRIES", 20), number("MPIUP_BLAME_HABITS", 11)) {
		if only.MatchString(c.name+", "+c.stack) && lacks[c.stack] == "" && !rs.has(c.name, c.stack, c.n) {
			todo = append(todo, c)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), lasts)
	defer cancel()
	made := makeAll(ctx, t, todo, number("MPIUP_BLAME_SIDE", 5), rs)
	t.Logf("%d of %d tries were made in this run", made, len(todo))
}

// all are all tries, the first one of each before the second ones.
func all(tries, ofHabits int) (list []try) {
	for n := range max(tries, ofHabits) {
		for _, s := range scenarios() {
			if n < tries {
				list = append(list, try{s.name, s.stack, n, func(ctx context.Context, r *result) error { return s.try(ctx, n, r) }})
			}
		}
		for _, h := range habits() {
			if n < ofHabits {
				list = append(list, try{h.name, h.stack, n, h.try})
			}
		}
	}
	return list
}

// makeAll makes tries side by side until ctx ends, and says how many it made.
func makeAll(ctx context.Context, t *testing.T, todo []try, side int, rs *results) (made int) {
	next := make(chan try)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range side {
		wg.Go(func() {
			for c := range next {
				r := result{Scenario: c.name, Stack: c.stack, Try: c.n, Commit: lab.Commit()}
				begun := time.Now()
				if err := c.do(context.WithoutCancel(ctx), &r); err != nil {
					r.Outcome, r.Said = broken, err.Error()
				}
				r.Seconds = time.Since(begun).Seconds()
				r.Load, r.Running = lab.Load()
				if err := rs.add(r); err != nil {
					t.Error(err)
				}
				if r.Outcome != right {
					t.Errorf("%s, %s, try %d, rank %d: %s: %s %s, code %d: %s", c.name, c.stack, c.n, r.Odd, r.Outcome, r.Named, r.Kind, r.Code, r.Said)
				}
				mu.Lock()
				made++
				mu.Unlock()
			}
		})
	}
	for _, c := range todo {
		if ctx.Err() != nil {
			break
		}
		select {
		case next <- c:
		case <-ctx.Done():
		}
	}
	close(next)
	wg.Wait()
	return made
}

// try makes the scenario once.
func (s scenario) try(ctx context.Context, n int, r *result) error {
	dir, err := folder()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	r.Odd = s.oddOf(n)
	if s.boxed {
		world.boxed.Lock()
		defer world.boxed.Unlock()
	}
	j := job{flags: s.flags, program: s.program(r.Odd, dir), boxed: s.boxed, dir: dir}
	res, err := j.run(ctx, func(p *lab.Process) error {
		if !s.killed {
			return nil
		}
		return j.killRank(p, r.Odd)
	})
	if err != nil {
		return err
	}
	r.Code = res.Code
	r.whole = res.Stderr + res.Stdout
	v, ok := verdictOf(res.Stdout)
	if !ok {
		r.Outcome, r.Said = nobody, "no verdict: "+said(res.Stderr)
		return nil
	}
	r.Kind = string(v.Kind)
	if v.Likely {
		r.Kind += "?"
	}
	if r.Outcome, r.Named = s.judge(v, res.Code, r.Odd); r.Outcome != right {
		r.Said = said(res.Stderr)
	}
	return nil
}

// lacks is what is wrong with a verdict's words; "": nothing.
func (s scenario) lacks(v verdict.Verdict) string {
	text := strings.Join(slices.Concat(v.Evidence, v.Advice, v.Others), "\n")
	for _, words := range s.says {
		if !strings.Contains(text, words) {
			return "does not say " + words
		}
	}
	for _, words := range s.never {
		if strings.Contains(text, words) {
			return "says " + words
		}
	}
	return ""
}

// judge says whether a verdict names the guilty one, and whom it names.
func (s scenario) judge(v verdict.Verdict, code, odd int) (out outcome, named string) {
	var ids idset.Set
	switch {
	case v.Ranks != "":
		named = v.Ranks
	case v.Rank != nil:
		named = fmt.Sprint(*v.Rank)
	default:
		return nobody, ""
	}
	ids, err := idset.Within(named, ranks)
	if err == nil && v.Confidence == verdict.OneOfSeveral && ids.Len() > 1 && !ids.Sub(idset.Of(s.guilty(odd)...)).Empty() && ids.Contains(odd) {
		return nobody, named // one of those, of which nothing tells the first
	}
	if err != nil || !ids.Sub(idset.Of(s.guilty(odd)...)).Empty() {
		return wrong, named
	}
	host := first
	if ids.First() >= 2 {
		if host = second; s.boxed {
			host = box
		}
	}
	switch {
	case v.Host != "" && v.Host != host:
		return wrong, named + " on " + v.Host
	case s.lacks(v) != "":
		return other, named + ", and the verdict " + s.lacks(v)
	case s.code >= 0 && code != s.code, s.kinds != nil && !slices.Contains(s.kinds, v.Kind):
		return other, named
	}
	return right, named
}

// verdictOf is the verdict of a run with --output json.
func verdictOf(stdout string) (verdict.Verdict, bool) {
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	var v struct {
		Event string
		verdict.Verdict
	}
	err := json.Unmarshal([]byte(lines[len(lines)-1]), &v)
	return v.Verdict, err == nil && v.Event == "verdict"
}

// said is what mpiup itself said.
func said(stderr string) string {
	var own []string
	for line := range strings.Lines(stderr) {
		if text, ok := strings.CutPrefix(line, "mpiup: "); ok {
			own = append(own, strings.TrimSpace(text))
		}
	}
	text := strings.Join(own[:min(len(own), 8)], " | ")
	return text[:min(len(text), 700)]
}

// run runs the job to its end; after bound it is killed, which is an error.
func (j job) run(ctx context.Context, meanwhile func(*lab.Process) error) (res lab.Result, err error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	p, err := j.start(ctx)
	if err != nil {
		return res, err
	}
	if err = meanwhile(p); err != nil {
		cancel()
	}
	res, end := p.End()
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("it hangs: %s", said(res.Stderr))
	}
	if err == nil {
		err = end
	}
	return res, err
}

// try makes a job that goes on.
func (h habit) try(ctx context.Context, r *result) error {
	dir, err := folder()
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	res, err := job{flags: habitFlags, program: h.program(dir), dir: dir}.run(ctx, func(*lab.Process) error { return nil })
	if err != nil {
		return err
	}
	r.whole = res.Stderr + res.Stdout
	switch r.Code = res.Code; {
	case res.Code == 0:
		r.Outcome = right
	case res.Code == 110:
		r.Outcome, r.Said = wrong, said(res.Stderr)
		if v, ok := verdictOf(res.Stdout); ok {
			r.Kind = string(v.Kind)
		}
	default:
		r.Outcome, r.Said = broken, fmt.Sprintf("code %d: %s %s", res.Code, said(res.Stderr), res.Stderr[:min(len(res.Stderr), 500)])
	}
	return nil
}

// TestSample is what CI runs of this: some scenarios and habits once each.
func TestSample(t *testing.T) {
	t.Parallel()
	hosted(t)
	var todo []try
	for n, s := range slices.DeleteFunc(scenarios(), func(s scenario) bool { return !s.ci }) {
		todo = append(todo, try{s.name, s.stack, n, func(ctx context.Context, r *result) error { return s.try(ctx, n, r) }})
	}
	for n, h := range slices.DeleteFunc(habits(), func(h habit) bool { return !h.ci }) {
		todo = append(todo, try{h.name, h.stack, n, h.try})
	}
	rs, err := read("")
	if err == nil && len(todo) < 10 {
		err = fmt.Errorf("a sample of %d", len(todo))
	}
	if err != nil {
		t.Fatal(err)
	}
	makeAll(t.Context(), t, todo, len(todo), rs)
}
