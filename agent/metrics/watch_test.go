package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/test/cost"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const every = 10 * time.Second

// helper is a program: it writes a line at once and then one an interval, until its lines are used up.
type helper struct {
	lines [][]string // of its first start, its second ...; the last also of all that follow
	end   error      // when they are used up; nil: it hangs

	mu     sync.Mutex
	starts int // guarded by mu
	alive  int // guarded by mu
}

func (h *helper) begin() (lines []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if n := len(h.lines); n > 0 {
		lines = h.lines[min(h.starts, n-1)]
	}
	h.starts++
	h.alive++
	return lines
}

func (h *helper) over() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.alive--
}

func (h *helper) count() (starts, alive int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.starts, h.alive
}

func (h *helper) run(ctx context.Context, argv []string, limit int, line func([]byte) error) error {
	lines := h.begin()
	defer h.over()
	if got := strings.Join(argv, " "); got != "/bin/mpiup-nvml --interval 10s" {
		return errors.New(got)
	}
	for i := 0; ; i++ {
		if i >= len(lines) {
			if h.end != nil {
				return h.end
			}
			<-ctx.Done()
			return ctx.Err()
		}
		if err := line([]byte(lines[i])); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(every):
		}
	}
}

// report is a line of one GPU.
func report(t *testing.T, uuid string, percent int, xids uint64) string {
	t.Helper()
	text, err := json.Marshal(gpu.Report{Version: gpu.ReportVersion, GPUs: []gpu.ReportGPU{{UUID: uuid, PCI: "0000:1b:00.0", Memory: 80 << 30,
		Health: &gpu.Health{ECC: true, Uncorrected: 2}, Usage: &gpu.Usage{Compute: percent, Xids: xids}}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func watching(t *testing.T, h *helper) (w *Watch, done chan struct{}) {
	w = NewWatch(WatchConfig{Run: h.run, Helper: "/bin/mpiup-nvml", Interval: every, Log: slog.New(slog.DiscardHandler)})
	done = make(chan struct{})
	go func() { defer close(done); w.Run(t.Context()) }()
	return w, done
}

// ask is what a scrape sees.
func ask(w *Watch) string {
	synctest.Wait()
	gpus, ok := w.Latest()
	synctest.Wait()
	if !ok {
		return "nothing"
	}
	var list []string
	for _, g := range gpus {
		list = append(list, fmt.Sprintf("%s %d%% %d xids", g.UUID, g.Usage.Compute, g.Usage.Xids))
	}
	return strings.Join(list, ", ")
}

func TestNobodyAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &helper{lines: [][]string{slices.Repeat([]string{report(t, "GPU-a", 50, 0)}, 1000)}}
		w, _ := watching(t, h)
		time.Sleep(time.Hour)
		if starts, _ := h.count(); starts != 0 {
			t.Error("it was started for nobody")
		}
		got := ask(w)
		if _, alive := h.count(); got != "nothing" || alive != 1 {
			t.Errorf("the first question: %s, %d run", got, alive)
		}
		if got := ask(w); got != "GPU-a 50% 0 xids" {
			t.Errorf("the second: %s", got)
		}
		for range 100 {
			time.Sleep(time.Minute)
			got := ask(w)
			if starts, _ := h.count(); got != "GPU-a 50% 0 xids" || starts != 1 {
				t.Fatalf("while asked: %s, %d starts", got, starts)
			}
		}
		time.Sleep(IdleAfter + 2*every)
		synctest.Wait()
		if _, alive := h.count(); alive != 0 {
			t.Error("it runs though nobody has asked for long")
		}
		time.Sleep(time.Hour)
		if starts, _ := h.count(); starts != 1 {
			t.Errorf("%d starts", starts)
		}
		ask(w)
		got = ask(w)
		if starts, _ := h.count(); got != "GPU-a 50% 0 xids" || starts != 2 {
			t.Errorf("asked again: %s, %d starts", got, starts)
		}
	})
}

// A helper that fails is started again, later each time, and at last no more.
func TestFailures(t *testing.T) {
	for _, tt := range []struct {
		name  string
		lines []string
		end   error
		sees  string // by the second question
	}{
		{"it cannot run", nil, errors.New("no such file"), "nothing"},
		{"nonsense", []string{"hello"}, nil, "nothing"},
		{"another form", []string{`{"version":99}`}, nil, "nothing"},
		{"one report and the end", []string{report(t, "GPU-a", 1, 3)}, errors.New("crashed"), "GPU-a 1% 3 xids"},
		{"one report and silence", []string{report(t, "GPU-a", 1, 3)}, nil, "GPU-a 1% 3 xids"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := &helper{lines: [][]string{tt.lines}, end: tt.end}
				w, done := watching(t, h)
				ask(w)
				if got := ask(w); got != tt.sees {
					t.Errorf("sees %s", got)
				}
				for range 1000 {
					ask(w)
					time.Sleep(time.Second)
				}
				select {
				case <-done:
				default:
					t.Error("it still tries")
				}
				if starts, alive := h.count(); starts != MaxFailures || alive != 0 {
					t.Errorf("%d starts, %d run", starts, alive)
				}
				if got := ask(w); got != "nothing" {
					t.Errorf("at last %s", got)
				}
			})
		})
	}
}

// Errors that an ended helper has counted are not lost, and what is no GPU is left out.
func TestXidsAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		strange := strings.NewReplacer(`"gpus":[`, `"gpus":[{"uuid":"a\"b","pci":"x","usage":{}},{"uuid":"GPU-b","pci":"y"},{"uuid":"GPU-a","pci":"z","usage":{}},`)
		h := &helper{end: errors.New("crashed"), lines: [][]string{{report(t, "GPU-a", 1, 2), report(t, "GPU-a", 1, 5)},
			{strange.Replace(report(t, "GPU-c", 1, 1)), report(t, "GPU-a", 1, 1)}}}
		w, _ := watching(t, h)
		ask(w)
		time.Sleep(every + time.Second)
		if got := ask(w); got != "GPU-a 1% 5 xids" {
			t.Errorf("at first %s", got)
		}
		time.Sleep(every + 2*firstPause)
		ask(w)
		if got := ask(w); got != "GPU-a 0% 5 xids, GPU-c 1% 1 xids" {
			t.Errorf("the next one: %s", got)
		}
		time.Sleep(every)
		if got := ask(w); got != "GPU-a 1% 6 xids" {
			t.Errorf("and counts on: %s", got)
		}
	})
}

func FuzzTake(f *testing.F) {
	f.Add([]byte(`{"version":1,"gpus":[{"uuid":"GPU-a","pci":"0000:1b:00.0","usage":{"xids":3}}]}`))
	f.Add([]byte(`{"version":1,"gpus":[null,{}]}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		defer cost.Watch(t, cost.Parser, len(line))()
		w := NewWatch(WatchConfig{Log: slog.New(slog.DiscardHandler)})
		w.Latest()
		if w.take(line) != nil {
			return
		}
		gpus, ok := w.Latest()
		if !ok {
			t.Error("a report that is none")
		}
		for _, g := range gpus {
			if !plain(g.UUID) || !plain(g.PCI) {
				t.Errorf("%q at %q", g.UUID, g.PCI)
			}
		}
	})
}
