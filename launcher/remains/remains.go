// Package remains leaves what remains of a run (launcher/remains/report) where the user wants it: in a folder, or at the end of
// standard error. A run that failed leaves a file among few.
//
//	launcher ──what it hears, does and says──▶ Keeper ──at the end──▶ DIR/report.json, events.jsonl   --report
//	                                                              └▶ KEPT/TIME-JOB.json               a failed run's
//	                                                              └▶ lines of standard error          --seal
//
// A Keeper may be used from any goroutine. It neither decides how a run ended nor how a report looks.
package remains

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/owned"
	"github.com/mpiup/mpiup/launcher/remains/report"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// Config says what becomes of what remains of a run.
type Config struct {
	Dir  string // a folder for the report; "": none
	Seal bool   // the report is the last lines of standard error
	Kept string // a folder in which a run that failed leaves its report, among few; "": none
	Lost string // why what is in Kept does not last, and what to do; "": it does
}

// Keeper makes the report of one run.
type Keeper struct {
	cfg Config
	say func(format string, args ...any)
	log *slog.Logger

	mu    sync.Mutex
	rec   report.Recorder // guarded by mu
	dumps map[int][]byte  // of flight recorders, gzip, by torch's rank; guarded by mu
	size  int             // of dumps, guarded by mu
}

// maxKept is how many reports stay in Config.Kept.
const maxKept = 8

// New is the keeper of a run that begins: is has what is known of it. say tells the user, and is not part of the report.
func New(cfg Config, is report.Report, say func(string, ...any), log *slog.Logger) *Keeper {
	k := &Keeper{cfg: cfg, say: say, log: log}
	k.rec.Begin(is)
	return k
}

// Host notes a host that joined.
func (k *Keeper) Host(h report.Host) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rec.Host(h, time.Now())
}

// Restarted notes that the ranks are to be started again.
func (k *Keeper) Restarted(is report.Restart) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rec.Restart(time.Now(), is)
}

// Launched notes the programs and ranks of a job of the run id; text says it in words. Rank.Program counts from 0.
func (k *Keeper) Launched(id string, programs []report.Program, ranks []report.Rank, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rec.Job(id)
	first := k.rec.Programs(programs)
	for _, r := range ranks {
		r.Program += first
		k.rec.Rank(r)
	}
	k.rec.Event(time.Now(), report.Event{Kind: report.Launched, Text: text})
}

// Started notes a process's pid.
func (k *Keeper) Started(p job.Process, pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rec.Started(time.Now(), p, pid)
}

// NotStarted notes why a process could not be started.
func (k *Keeper) NotStarted(p job.Process, why string) { k.ended(p, "was not started: "+why) }

// Ended notes how a process ended.
func (k *Keeper) Ended(p job.Process, e job.Exit) {
	if e.Signal != 0 {
		k.ended(p, fmt.Sprintf("signal %d (%s)", e.Signal, job.SignalName(e.Signal)))
		return
	}
	k.ended(p, fmt.Sprint("exit code ", e.Code))
}

func (k *Keeper) ended(p job.Process, how string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rec.Ended(time.Now(), p, how)
}

// Last notes what a process wrote last, to which stream.
func (k *Keeper) Last(p job.Process, to job.Stream, lines []string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rec.Last(p, to, lines)
}

// maxDumps bounds the dumps of flight recorders that are kept.
const maxDumps = 32 << 20

// Dump notes what a flight recorder has written, as gzip; rank is torch's. The latest of a rank counts.
func (k *Keeper) Dump(rank int, gz []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.cfg.Dir == "" || k.size-len(k.dumps[rank])+len(gz) > maxDumps {
		return
	}
	if k.dumps == nil {
		k.dumps = map[int][]byte{}
	}
	k.size += len(gz) - len(k.dumps[rank])
	k.dumps[rank] = gz
}

// Event notes something of a host, or of the run.
func (k *Keeper) Event(kind, host, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rec.Event(time.Now(), report.Event{Kind: kind, Host: host, Text: text})
}

// Leave writes what remains to files, and says where a failed run has left it by itself. v is nil where all went well.
func (k *Keeper) Leave(v *verdict.Verdict, code int) {
	is := k.made(v, code)
	switch {
	case k.cfg.Dir != "":
		err := write(k.cfg.Dir, is)
		if err == nil {
			err = k.writeDumps()
		}
		if err != nil {
			k.say("--report %s: %v", k.cfg.Dir, err)
		}
	case k.cfg.Kept != "" && v != nil && is.Started():
		name, err := keep(k.cfg.Kept, is)
		if err != nil {
			k.log.Info("no report is left", "dir", k.cfg.Kept, "cause", err)
			return
		}
		k.say("what happened when: mpiup report %s%s", name, k.cfg.Lost)
	}
}

// Seal writes what remains as lines, where the user wants that.
func (k *Keeper) Seal(w io.Writer, v *verdict.Verdict, code int) {
	if !k.cfg.Seal {
		return
	}
	lines, err := report.Seal(k.made(v, code))
	if err != nil {
		k.say("--seal: %v", err)
	}
	for _, l := range lines {
		fmt.Fprintln(w, l)
	}
}

func (k *Keeper) made(v *verdict.Verdict, code int) *report.Report {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rec.Report(report.Report{Ended: time.Now(), ExitCode: code, Verdict: v})
}

// writeDumps leaves flight recorders' dumps as torch wrote them: DIR/flight/rank_0 and so on.
func (k *Keeper) writeDumps() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	dir := filepath.Join(k.cfg.Dir, "flight")
	if len(k.dumps) > 0 {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	for rank, gz := range k.dumps {
		z, err := gzip.NewReader(bytes.NewReader(gz))
		if err != nil {
			return err
		}
		const most = 16 << 20 // of one
		text, err := io.ReadAll(io.LimitReader(z, most))
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprint("rank_", rank)), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func write(dir string, r *report.Report) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	whole, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	var events bytes.Buffer
	e := json.NewEncoder(&events)
	for _, ev := range r.Events {
		if err := e.Encode(ev); err != nil {
			return err
		}
	}
	if err := os.WriteFile(filepath.Join(dir, report.FileName), append(whole, '\n'), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "events.jsonl"), events.Bytes(), 0o644)
}

// keep writes a report among the few that stay in a folder, to which nobody else may write.
func keep(dir string, r *report.Report) (name string, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	if err := owned.Dir(dir); err != nil {
		return "", err
	}
	text, err := json.Marshal(r)
	if err != nil {
		return "", err
	}
	name = filepath.Join(dir, r.Begun.UTC().Format("20060102T150405.000")+"-"+r.Job+".json")
	if err := os.WriteFile(name+".new", append(text, '\n'), 0o600); err != nil {
		return "", err
	}
	if err := os.Rename(name+".new", name); err != nil {
		return "", err
	}
	old, _ := filepath.Glob(filepath.Join(dir, "*.json")) // by their time; an error is of the pattern, a constant
	for _, o := range old[:max(0, len(old)-maxKept)] {
		os.Remove(o)
	}
	return name, nil
}
