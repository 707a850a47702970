package examine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher"
)

// tries notes what is started where, and answers.
type tries struct {
	mu   sync.Mutex
	seen []string // guarded by mu
	env  []string // of the last, guarded by mu

	answer func(host, phase string) (string, int)
}

func (p *tries) start(_ context.Context, cfg launcher.Config) int {
	host, argv := cfg.Known.Hosts[0].Entry.Name, cfg.Apps[0].Argv
	phase := argv[len(argv)-1]
	if argv[0] == self {
		phase = argv[3]
	}
	p.mu.Lock()
	p.seen, p.env = append(p.seen, phase+" "+host), cfg.Apps[0].Env
	p.mu.Unlock()
	out, code := p.answer(host, phase)
	fmt.Fprintln(cfg.Stdout, out)
	if code != 0 {
		cfg.Told([]string{"rank 0 on " + host + " failed"}, []string{out})
	}
	return code
}

// A phase begins when the one before has ended everywhere, reading is left out where somebody could not write, and what was
// written is removed in any case.
func TestPhases(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer func(host, phase string) (string, int)
		want   string
		errors string
	}{
		{"well", func(_, phase string) (string, int) { return `{"count":3}`, 0 }, "write read lock clean", ""},
		{"one cannot write", func(host, phase string) (string, int) {
			if host == "w1" && phase == "write" {
				return "killed", 137
			}
			return "{}", 0
		}, "write clean", "rank 0 on w1 failed; its last line: \"killed\""},
		{"one does not see another", func(host, phase string) (string, int) {
			if host == "w1" && phase == "read" {
				return `{"missing":[2]}`, 0
			}
			return `{"count":3}`, 0
		}, "write read clean", ""},
		{"one prints nonsense", func(host, phase string) (string, int) { return "hello", 0 }, "write clean", "its last line is not a result"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &tries{answer: tt.answer}
			b := &bench{cfg: &Config{}, hosts: verbsHosts(3), start: p.start}
			s := b.shared(t.Context(), "/data", 1<<20)
			var order []string
			for i := 0; i < len(p.seen); i += 3 {
				phase, _, _ := strings.Cut(p.seen[i], " ")
				order = append(order, phase)
				for _, other := range p.seen[i : i+3] {
					if !strings.HasPrefix(other, phase+" ") {
						t.Errorf("%v", p.seen)
					}
				}
			}
			if got := strings.Join(order, " "); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
			if tt.errors != "" && !strings.Contains(s.Write[1].Error, tt.errors) || tt.errors == "" && s.Count != 3 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// A code of mpiup's own comes with its reason; a command's code is its own.
func TestCheckOutcomes(t *testing.T) {
	p := &tries{answer: func(host, _ string) (string, int) {
		return "a\n\n b \nc\nd\n" + strings.Repeat("é", 200), map[string]int{"w0": 0, "w1": 3, "w2": job.ExitExec}[host]
	}}
	b := &bench{cfg: &Config{Env: []string{"NCCL_DEBUG=INFO"}}, hosts: verbsHosts(3), start: p.start}
	c := b.check(t.Context(), "./test.sh", time.Minute)
	if !slices.Equal(p.env, b.cfg.Env) {
		t.Errorf("a trial is given %q", p.env)
	}
	last := strings.Repeat("é", 80)
	for i, want := range []string{"", "", "rank 0 on w2 failed"} {
		if o := c.Outcomes[i]; !slices.Equal(o.Lines, []string{"b", "c", "d", last}) || !strings.HasPrefix(o.Error, want) || want == "" && o.Error != "" || o.Code != []int{0, 3, job.ExitExec}[i] {
			t.Errorf("%+v", o)
		}
	}
}
