package iof

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"reflect"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/progress"
	"github.com/mpiup/mpiup/launcher/streams"
)

// Config says where output goes and in which form.
type Config struct {
	Stdout, Stderr io.Writer // nil: forget what would go there
	Mode           Mode
	Style          Style
	TagHost        bool    // OwnStyle's tags have the rank's host
	TagStream      bool    // and the stream, behind it
	Form           TagForm // of OpenMPI5Style's tags
	TagFiles       bool    // lines in files have the same before them as those that are shown
	Timestamps     bool    // before each line, in Plain and Tag; JSON always has them
	Merge          bool    // the ranks' stderr goes to Stdout too

	// Dir is where each rank's bytes go, one file a stream, unformatted unless TagFiles; empty: no files. They
	// are made by New. The streams get a copy unless NoCopy. NoJobID leaves the first job's number
	// out of OpenMPIStyle's paths.
	Dir     string
	NoCopy  bool
	NoJobID bool
	Append  bool // to files that are there already
	// JobName is what OpenMPI5Style's paths call the jobs, before "@" and the number. File makes files in Dir of
	// them, with names that begin so, instead of directories: FILE.JOB@1.RANK.out and .err.
	JobName string
	File    string

	// Files are where each stream goes instead of the launcher's own, by a pattern; empty: it does
	// not. They are made when they are first written to. Not with Dir.
	Files   [2]Pattern
	Prepend Pattern           // before each line, in Plain; empty: nothing
	Begun   time.Time         // when the job did, for patterns
	Only    func(id int) bool // whose output is taken; nil: everybody's

	Ranks   int                      // of the first job; Grow adds others
	Process func(id int) job.Process // whose output it is, on any goroutine; nil: there is only the first job
	Host    func(id int) string      // for JSON and patterns; nil: left out
	Node    func(id int) int         // index of the host, for patterns; nil: left out
	PID     func(id int) int         // the process's number on its host, for TagDetailed; nil: left out

	// Written gives back window: n bytes of the rank have left, or were dropped. Called from
	// Run's goroutines and from Write; must not block.
	Written func(id int, n int)

	// Broken is called once for each destination that takes no more, with an error that names
	// it; errors.Is(err, syscall.EPIPE) when its reader has gone, as `| head` does. May be nil.
	Broken func(err error)

	Hold time.Duration // default DefaultHold

	places *places // by Open
}

// Sink writes the output of a run's processes, each known by its id.
type Sink struct {
	cfg   Config
	dests []*destination  // what Run runs
	route [2]*destination // by Stream; nil: not written
	files *destination    // nil: none
	outs  [2]*out         // of route
	byID  *files          // of files
	tails *tails
	words *words
	book  *ledger
	// follow reads along how far the ranks are; nil: nobody does.
	follow *progress.Follow
}

// New opens what is to be written. Nothing runs before Run.
func New(cfg Config) (*Sink, error) {
	cfg.Hold = cmp.Or(cfg.Hold, DefaultHold)
	if cfg.Written == nil {
		cfg.Written = func(int, int) {}
	}
	if err := cfg.Open(); err != nil {
		return nil, err
	}
	s := &Sink{cfg: cfg, tails: &tails{ends: map[laneKey][]byte{}}, words: &words{of: map[int]*hearing{}, out: map[int]*hearing{}},
		book: &ledger{written: cfg.Written, lead: map[laneKey]int{}}}
	if cfg.Dir != "" || cfg.Files != [2]Pattern{} {
		s.byID = newFiles(&s.cfg, s.book)
		s.files = newDestination(s.byID, s.book.filed)
		s.dests = append(s.dests, s.files)
	}
	if err := s.Grow(0, 0, cfg.Ranks); err != nil {
		return nil, err
	}
	if cfg.Dir == "" || !cfg.NoCopy {
		s.streams()
	}
	for st, p := range cfg.Files {
		if p != "" {
			s.route[st] = nil
		}
	}
	for _, st := range []job.Stream{job.Stdout, job.Stderr} {
		s.book.both[st] = s.filed(st) && s.route[st] != nil
	}
	return s, nil
}

func (s *Sink) filed(st job.Stream) bool { return s.cfg.Dir != "" || s.cfg.Files[st] != "" }

// Grow makes room for a job that comes later: size processes, whose ids begin with first. Its files are
// made at once; with an error there is no such job.
func (s *Sink) Grow(number, first, size int) error {
	if s.cfg.Dir == "" {
		return nil
	}
	return s.byID.add(number, first, size)
}

// streams makes the destinations of the launcher's own streams. One for both when they are
// the same file (2>&1, or one terminal): two would tear each other's lines.
func (s *Sink) streams() {
	out, err := s.cfg.Stdout, s.cfg.Stderr
	if out != nil {
		s.route[job.Stdout], s.outs[job.Stdout] = s.terminal(out, "standard output")
		s.dests = append(s.dests, s.route[job.Stdout])
	}
	switch {
	case s.cfg.Merge || out != nil && sameFile(out, err):
		s.route[job.Stderr], s.outs[job.Stderr] = s.route[job.Stdout], s.outs[job.Stdout]
	case err != nil:
		s.route[job.Stderr], s.outs[job.Stderr] = s.terminal(err, "standard error")
		s.dests = append(s.dests, s.route[job.Stderr])
	}
}

// terminal makes the destination for one of the launcher's streams.
func (s *Sink) terminal(w io.Writer, name string) (*destination, *out) {
	o := &out{to: w, name: name, done: s.book.done, broken: s.cfg.Broken}
	if s.cfg.Mode == JSON {
		return newDestination(&records{cfg: &s.cfg, out: o, lanes: map[laneKey]*record{}}, s.book.done), o
	}
	return newDestination(newLines(&s.cfg, o, streams.IsTerminal(w)), s.book.done), o
}

// MidLine says, once Run has returned, that it left standard error within a line. Others that write there then need a
// line end first.
func (s *Sink) MidLine() bool { return s.outs[job.Stderr] != nil && s.outs[job.Stderr].midline }

func sameFile(a, b io.Writer) bool {
	fa, ok := a.(*os.File)
	fb, ok2 := b.(*os.File)
	if !ok || !ok2 {
		return a != nil && b != nil && reflect.TypeOf(a).Comparable() && a == b
	}
	ia, err := fa.Stat()
	ib, err2 := fb.Stat()
	return err == nil && err2 == nil && os.SameFile(ia, ib)
}

// Follow hands all output to f too, which Run runs. It is called before Run, once at most.
func (s *Sink) Follow(f *progress.Follow) { s.follow = f }

// Told takes lines that a process has written on how far it is, beside its output.
func (s *Sink) Told(id int, lines []byte) {
	if s.follow != nil {
		s.follow.Told(id, lines)
	}
}

// Progress is what is to be said of how far the ranks came, once Run has returned.
func (s *Sink) Progress() []string {
	if s.follow == nil {
		return nil
	}
	return s.follow.Last()
}

// Run writes until Close, and then what is still there. When ctx ends first it drops that, and
// waits no longer for a reader that does not read. It returns what went wrong with
// destinations, each of which Broken has been told.
func (s *Sink) Run(ctx context.Context) error {
	var g errgroup.Group
	errs := make([]error, len(s.dests))
	if s.follow != nil {
		g.Go(func() error { s.follow.Run(ctx); return nil })
	}
	for i, d := range s.dests {
		g.Go(func() error { errs[i] = d.run(ctx); return nil })
	}
	g.Wait()
	return errors.Join(errs...)
}

// Write takes what a process wrote; data is the Sink's from then on. partial and t come from the
// agent: data does not end at a line end; when it was read.
func (s *Sink) Write(id int, stream job.Stream, data []byte, partial bool, t time.Time) {
	if len(data) == 0 {
		return
	}
	if s.cfg.Only != nil && !s.cfg.Only(id) {
		s.cfg.Written(id, len(data))
		return
	}
	if s.follow != nil {
		s.follow.Put(id, stream, data)
	}
	s.tails.add(id, stream, data)
	s.words.add(id, stream, data)
	term := s.route[stream]
	if term == nil && !s.filed(stream) {
		s.cfg.Written(id, len(data))
		return
	}
	p := piece{id: id, stream: stream, data: data, time: t, whole: !partial && data[len(data)-1] == '\n'}
	if term != nil {
		term.put(p)
	}
	if s.filed(stream) {
		s.files.put(p)
	}
}

// End says that a process writes no more: what is held of an unfinished line is written as it is.
func (s *Sink) End(id int) {
	s.words.end(id)
	if s.follow != nil {
		s.follow.End(id)
	}
	for _, d := range s.dests {
		for _, st := range []job.Stream{job.Stdout, job.Stderr} {
			d.put(piece{id: id, stream: st, end: true})
		}
	}
}

// Close says that nothing more comes. What comes nevertheless is dropped, its credit given back.
func (s *Sink) Close() {
	for _, d := range s.dests {
		d.close()
	}
	if s.follow != nil {
		s.follow.Close()
	}
}

// Tail returns the last lines a process wrote to stderr, else to stdout: at most 10 and 2 KiB.
func (s *Sink) Tail(id int) ([]string, job.Stream) { return s.tails.lines(id) }

// Words is what of a process's output tells why it failed, once it has ended.
func (s *Sink) Words(id int) Words { return s.words.words(id) }

// WordsSoFar is the same of a process whose output may go on.
func (s *Sink) WordsSoFar(id int) Words { return s.words.soFar(id) }
