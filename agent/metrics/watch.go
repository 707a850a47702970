package metrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/awake"
)

// A Watch follows how busy and how well a host's NVIDIA GPUs are, through one mpiup-nvml that prints a report an
// interval (gpu.Report).
//
//	Latest ── somebody asks ──▶ Run: helper ──▶ lines ──▶ the latest report
//	             nobody has asked for IdleAfter ──▶ the helper is ended
//	             it ends, hangs or writes nonsense ──▶ again after a pause, at most MaxFailures times
//
// So a host whose metrics nobody reads pays nothing. What it writes is bounded and checked: a wrong or hostile
// helper costs its own values only.
//
// A Watch may be asked by any number of goroutines while Run runs; Run waits for the helper's end.

// WatchConfig is what a Watch needs.
type WatchConfig struct {
	// Run runs a program, calls line for each line it writes, and ends it when ctx ends or line fails. A line of more
	// than limit bytes is an error.
	Run      func(ctx context.Context, argv []string, limit int, line func([]byte) error) error
	Helper   string        // mpiup-nvml with its directory
	Interval time.Duration // between reports; at least a second
	Log      *slog.Logger
}

// Bounds.
const (
	IdleAfter   = 5 * time.Minute // without a question the helper ends
	MaxFailures = 5               // in a row, then it is not started again
	recovered   = time.Hour       // of reports, after which earlier failures are forgotten
	firstPause  = time.Second     // after a failure; doubles with each
	patience    = 20 * time.Second
	maxLine     = 1 << 20
	maxGPUs     = 256
	maxText     = 96
)

// GPU is what the last report says of one.
type GPU struct {
	PCI, UUID   string
	Memory      uint64 // bytes
	Uncorrected *uint64
	Usage       gpu.Usage // Xids since the agent was started
}

// Watch is the latest report.
type Watch struct {
	cfg   WatchConfig
	wake  chan struct{} // somebody has asked; capacity 1
	quiet time.Duration // without a report it is stale, and the helper hangs

	mu    sync.Mutex
	asked time.Time         // guarded by mu
	at    time.Time         // of the report, guarded by mu; zero: none
	gpus  []GPU             // guarded by mu
	xids  map[string]events // by UUID, guarded by mu
}

// events are Xid errors: a helper counts its own.
type events struct{ before, now uint64 }

// NewWatch makes a Watch; nothing runs until Run.
func NewWatch(cfg WatchConfig) *Watch {
	cfg.Interval = max(cfg.Interval, time.Second)
	return &Watch{cfg: cfg, wake: make(chan struct{}, 1), quiet: 3*cfg.Interval + patience, xids: map[string]events{}}
}

// Latest is the last report, false while there is none that is new. To ask keeps the helper running.
func (w *Watch) Latest() ([]GPU, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = time.Now()
	select {
	case w.wake <- struct{}{}:
	default:
	}
	if w.at.IsZero() || time.Since(w.at) > w.quiet {
		return nil, false
	}
	return w.gpus, true
}

var (
	errIdle   = errors.New("nobody asks")
	errSilent = errors.New("it writes nothing any more")
)

// Run follows the GPUs until ctx ends, or the helper has failed too often.
func (w *Watch) Run(ctx context.Context) {
	failures := 0
	for failures < MaxFailures {
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		}
		begun := time.Now()
		err := w.follow(ctx)
		w.settle()
		if ctx.Err() != nil {
			return
		}
		if errors.Is(err, errIdle) {
			select {
			case <-w.wake: // of a question that was answered
			default:
			}
			continue
		}
		if time.Since(begun) > recovered {
			failures = 0
		}
		failures++
		w.cfg.Log.Info("GPU metrics: the helper ended", "helper", w.cfg.Helper, "cause", err, "failures", failures)
		pause := time.NewTimer(firstPause << (failures - 1))
		select {
		case <-ctx.Done():
		case <-pause.C:
		}
		pause.Stop()
	}
	w.cfg.Log.Warn("GPU metrics: given up, since the helper has failed too often; the agent's next start tries again", "helper", w.cfg.Helper)
}

// follow runs the helper until it ends, hangs or is not needed.
func (w *Watch) follow(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	silent := func() { end(errSilent) }
	heard := awake.After(w.quiet, silent)
	defer func() { heard() }()
	err := w.cfg.Run(ctx, []string{w.cfg.Helper, "--interval", w.cfg.Interval.String()}, maxLine, func(line []byte) error {
		heard()
		heard = awake.After(w.quiet, silent)
		return w.take(line)
	})
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	if err == nil {
		err = errors.New("it ended by itself")
	}
	return err
}

// take makes a line the latest report.
func (w *Watch) take(line []byte) error {
	var r gpu.Report
	if err := json.Unmarshal(line, &r); err != nil {
		return fmt.Errorf("it writes no report: %w", err)
	}
	if r.Version != gpu.ReportVersion || len(r.GPUs) > maxGPUs {
		return fmt.Errorf("it writes reports of form %d of %d GPUs", r.Version, len(r.GPUs))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var gpus []GPU
	seen := map[string]bool{}
	for _, from := range r.GPUs {
		if from.Usage == nil || !plain(from.UUID) || !plain(from.PCI) || seen[from.UUID] {
			continue
		}
		seen[from.UUID] = true
		g := GPU{PCI: from.PCI, UUID: from.UUID, Memory: from.Memory, Usage: *from.Usage}
		if from.Health != nil && from.Health.ECC {
			g.Uncorrected = &from.Health.Uncorrected
		}
		e := w.xids[g.UUID]
		e.now = max(e.now, g.Usage.Xids)
		if len(w.xids) < maxGPUs || w.xids[g.UUID] != (events{}) {
			w.xids[g.UUID] = e
		}
		g.Usage.Xids = e.before + e.now
		gpus = append(gpus, g)
	}
	w.at, w.gpus = time.Now(), gpus
	if time.Since(w.asked) > IdleAfter {
		return errIdle
	}
	return nil
}

// plain is text that can be a metric's label.
func plain(s string) bool {
	return s != "" && len(s) <= maxText && strings.IndexFunc(s, func(c rune) bool { return c <= ' ' || c > '~' || c == '"' || c == '\\' }) < 0
}

// settle keeps what an ended helper has counted: the next one begins at 0.
func (w *Watch) settle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at = time.Time{}
	for uuid, e := range w.xids {
		w.xids[uuid] = events{before: e.before + e.now}
	}
}
