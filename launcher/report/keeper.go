// Package report is what remains of a run (Report), left where the user wants it (Keeper): in a folder. A run that failed
// leaves a file among few.
//
//	launcher ──what it hears, does and says──▶ Keeper ──at the end──▶ DIR/report.json, events.jsonl   --report
//	                                                              └▶ KEPT/TIME-JOB.json               a failed run's
//
// A Keeper may be used from any goroutine. It neither decides how a run ended nor how a report looks.
package report

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/outfile"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/hours"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/progress"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// Config says what becomes of what remains of a run.
type Config struct {
	Dir  string // a folder for the report; "": none
	Kept string // a folder in which a run that failed leaves its report, among few; "": none
	Lost string // why what is in Kept does not last, and what to do; "": it does
}

// Keeper makes the report of one run.
type Keeper struct {
	cfg Config
	dir *outfile.Dir // of Config.Dir, from Ready to Leave
	log *slog.Logger

	mu    sync.Mutex
	rec   Recorder       // guarded by mu
	dumps map[int][]byte // of flight recorders, gzip, by torch's rank; guarded by mu
	size  int            // of dumps, guarded by mu
}

// maxKept is how many reports stay in Config.Kept.
const maxKept = 8

// New is the keeper of a run that begins: is has what is known of it.
func New(cfg Config, is Report, log *slog.Logger) *Keeper {
	k := &Keeper{cfg: cfg, log: log}
	k.rec.Begin(is)
	return k
}

// note has f note something at this moment, alone.
func (k *Keeper) note(f func(at time.Time)) {
	k.mu.Lock()
	defer k.mu.Unlock()
	f(time.Now())
}

// Host notes a host that joined.
func (k *Keeper) Host(h Host) { k.note(func(at time.Time) { k.rec.Host(h, at) }) }

// Restarted notes that the ranks are to be started again.
func (k *Keeper) Restarted(is Restart) { k.note(func(at time.Time) { k.rec.Restart(at, is) }) }

// Launched notes the programs and ranks of a job of the run id; text says it in words. Rank.Program counts from 0.
func (k *Keeper) Launched(id string, programs []Program, ranks []Rank, text string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rec.Job(id)
	at, first := time.Now(), k.rec.Programs(programs)
	if len(ranks) > 0 && ranks[0].Job == 0 {
		k.rec.Places(at, ranks)
	}
	for _, r := range ranks {
		r.Program += first
		k.rec.Rank(r)
	}
	k.rec.Event(at, Event{Kind: Launched, Text: text})
}

// Started notes a process's pid.
func (k *Keeper) Started(id, pid int) { k.note(func(at time.Time) { k.rec.Started(at, id, pid) }) }

// NotStarted notes why a process could not be started.
func (k *Keeper) NotStarted(id int, why string) { k.ended(id, "was not started: "+why) }

// Ended notes how a process ended.
func (k *Keeper) Ended(id int, e job.Exit) {
	if e.Signal != 0 {
		k.ended(id, fmt.Sprintf("signal %d (%s)", e.Signal, job.SignalName(e.Signal)))
		return
	}
	k.ended(id, fmt.Sprint("exit code ", e.Code))
}

func (k *Keeper) ended(id int, how string) { k.note(func(at time.Time) { k.rec.Ended(at, id, how) }) }

// Last notes what a process wrote last, to which stream.
func (k *Keeper) Last(id int, to job.Stream, lines []string) {
	k.note(func(time.Time) { k.rec.Last(id, to, lines) })
}

// Point notes what a line of a rank of the first job has told.
func (k *Keeper) Point(p progress.Point) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rec.Point(p)
	for _, v := range p.Values {
		if v.Name == progress.Of { // the same all along
			continue
		}
		k.rec.Value(p.At, p.ID, v.Name, v.Number)
	}
}

// Watched says that ranks' lines tell steps.
func (k *Keeper) Watched() { k.note(func(time.Time) { k.rec.hours.Watched() }) }

// Enter notes a phase.
func (k *Keeper) Enter(phase string) { k.note(func(at time.Time) { k.rec.Enter(at, phase) }) }

// Stands notes how the run stands.
func (k *Keeper) Stands(s hours.Stand) { k.note(func(at time.Time) { k.rec.Stands(at, s) }) }

// Now is how the run stands, how long it was in each phase, and where its ranks' time went until now.
func (k *Keeper) Now() (s hours.Stand, in map[string]time.Duration, spent []hours.Spent) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := time.Now()
	k.rec.hours.Advance(at)
	in = maps.Clone(k.rec.in)
	in[k.rec.stand.Phase] += at.Sub(k.rec.since)
	return k.rec.stand, in, k.rec.hours.Told()
}

// Hours is where the time of a run that is over went, in a sentence; "" where nothing is to be said.
func (k *Keeper) Hours() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := time.Now()
	k.rec.Over(at)
	return hours.Sentence(k.rec.hours.Told(), at.Sub(k.rec.report.Begun))
}

// Handed is where the time went, for the next launcher.
func (k *Keeper) Handed(at time.Time) hours.Account {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.rec.hours.Handed(at)
}

// Takes goes on with what another launcher of the run left at a time.
func (k *Keeper) Takes(begun, left time.Time, a hours.Account) {
	k.note(func(time.Time) { k.rec.hours.Takes(begun, left, a) })
}

// Did notes what processes do from now on.
func (k *Keeper) Did(works, busy, idle idset.Set) {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := time.Now()
	for i, ids := range []idset.Set{works, busy, idle} {
		for id := range ids.All() {
			k.rec.Did(at, id, []byte{Works, Busy, Idle}[i])
		}
	}
}

// Memory notes what a host's container uses of its memory, and how much it may, in bytes.
func (k *Keeper) Memory(host string, used, limit uint64) {
	k.note(func(at time.Time) { k.rec.MemoryOf(at, host, used, limit) })
}

// Seats notes what a host tells of its machine and of its ranks' seats.
func (k *Keeper) Seats(host, name string, seats map[int]placement.Seat, told func() placement.Machine) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.rec.Seats(host, name, seats, told)
}

// Waited notes who the others wait for.
func (k *Keeper) Waited(w Wait) { k.note(func(at time.Time) { k.rec.Waited(at, w) }) }

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

// LostHost notes that a host is lost of which nothing was heard for so long.
func (k *Keeper) LostHost(host, why string, silent time.Duration) {
	k.note(func(at time.Time) { k.rec.LostHost(at, at.Add(-silent), host, why) })
}

// Event notes something of a host, or of the run.
func (k *Keeper) Event(kind, host, text string) {
	k.note(func(at time.Time) { k.rec.Event(at, Event{Kind: kind, Host: host, Text: text}) })
}

// Ready opens the folder for the report, and sees whether files can be made there. Leave writes to none that was not opened.
func (k *Keeper) Ready() (err error) {
	if k.cfg.Dir == "" {
		return nil
	}
	if k.dir, err = outfile.Open(k.cfg.Dir, 0o755); err != nil {
		return err
	}
	if err = k.dir.Try(); err != nil {
		k.dir = nil
	}
	return err
}

// Leave writes what remains to files. v is nil where all went well. shows is how the report of a run that failed is shown; "": it has left none. The
// error is of a folder that the user named.
func (k *Keeper) Leave(v *verdict.Verdict, code int) (shows string, err error) {
	is, dir := k.Made(v, code), k.dir
	switch {
	case k.cfg.Dir != "":
		if k.dir = nil; dir == nil {
			return "", nil // which was said
		}
		err = write(dir, is)
		if err == nil {
			err = k.writeDumps(dir)
		}
		if err = errors.Join(err, dir.Close()); err != nil {
			return "", fmt.Errorf("--report %s: %w", k.cfg.Dir, err)
		}
		k.alsoKept(is) // mpiup why shows the newest failure, wherever its report went
		return "mpiup report " + visible.Path(k.cfg.Dir), nil
	case v != nil:
		if k.alsoKept(is) {
			return "mpiup report" + k.cfg.Lost, nil
		}
	}
	return "", nil
}

// alsoKept leaves the report of a run that failed among the few that stay.
func (k *Keeper) alsoKept(is *Report) bool {
	if k.cfg.Kept == "" || is.Verdict == nil || !is.Started() || !is.Verdict.Failed() {
		return false
	}
	name, err := keep(k.cfg.Kept, is)
	if err != nil {
		k.log.Info("no report is left", "dir", k.cfg.Kept, "cause", err)
		return false
	}
	k.log.Info("report is left", "file", name)
	return true
}

// Made is the report so far, with the run's end.
func (k *Keeper) Made(v *verdict.Verdict, code int) *Report {
	k.mu.Lock()
	defer k.mu.Unlock()
	at := time.Now()
	k.rec.Over(at)
	return k.rec.Report(Report{Ended: at, ExitCode: code, Verdict: v})
}

// writeDumps leaves flight recorders' dumps as torch wrote them: DIR/flight/rank_0 and so on. What a host sent that is none is left out: no run fails
// for it.
func (k *Keeper) writeDumps(to *outfile.Dir) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	for rank, gz := range k.dumps {
		const most = 16 << 20 // of one
		z, err := gzip.NewReader(bytes.NewReader(gz))
		var text []byte
		if err == nil {
			text, err = bounded.Read(z, most)
		}
		if err != nil {
			k.log.Info("a flight recorder's dump cannot be read, and is not left", "rank", rank, "cause", err)
			continue
		}
		if err := to.Replace(fmt.Sprint("flight/rank_", rank), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func write(to *outfile.Dir, r *Report) error {
	var whole, events bytes.Buffer
	if err := visible.JSON(&whole, r); err != nil {
		return err
	}
	for _, ev := range r.Events {
		text, err := visible.JSONLine(ev)
		if err != nil {
			return err
		}
		events.Write(append(text, '\n'))
	}
	if err := to.Replace(FileName, whole.Bytes(), 0o644); err != nil {
		return err
	}
	return to.Replace("events.jsonl", events.Bytes(), 0o644)
}

// keep writes a report among the few that stay in a folder, to which nobody else may write.
func keep(path string, r *Report) (name string, err error) {
	dir, err := outfile.Private(path)
	if err != nil {
		return "", err
	}
	defer dir.Close()
	text, err := visible.JSONLine(r)
	if err != nil {
		return "", err
	}
	name = r.Begun.UTC().Format("20060102T150405.000") + "-" + r.Job + ".json"
	if err := dir.Replace(name, append(text, '\n'), 0o600); err != nil {
		return "", err
	}
	old, err := Kept(dir)
	if err != nil {
		return "", err
	}
	for _, o := range old[:max(0, len(old)-maxKept)] {
		_ = dir.Remove(o)
	}
	return filepath.Join(path, name), nil
}

// Kept are the names of the reports that stay in a folder, by their time.
func Kept(dir *outfile.Dir) ([]string, error) {
	names, err := dir.Names()
	names = slices.DeleteFunc(names, func(n string) bool { return !strings.HasSuffix(n, ".json") || strings.HasPrefix(n, ".") })
	slices.Sort(names)
	return names, err
}
