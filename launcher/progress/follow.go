package progress

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/mpiup/mpiup/internal/job"
)

// maxQueued is how much output may wait to be read, in bytes. What is more is left out: ranks' output waits for no pattern. A piece counts
// as so many bytes more, since a rank may write byte by byte.
const (
	maxQueued = 4 << 20
	pieceSize = 128
)

// Follow reads the output of one attempt's ranks beside its way. Its methods may be called from any goroutine.
type Follow struct {
	Keep  func(Point)   // gets each point that counts; nil: nobody does
	Found func(Finding) // gets what is wrong; set before Run

	cfg      Config
	prefixes [][]byte
	ranks    int
	now      func() time.Duration
	wake     chan struct{}

	mu     sync.Mutex
	queue  []chunk       // guarded by mu
	queued int           // bytes in it, guarded by mu
	torn   map[lane]bool // that lost bytes since, guarded by mu
	begun  map[lane]bool // in the middle of a line, guarded by mu
	left   int           // bytes that were left out, guarded by mu
	closed bool          // guarded by mu

	judging sync.Mutex
	judge   *Judge // guarded by judging
}

type chunk struct {
	lane
	data []byte
	at   time.Time
	torn bool // bytes before it were left out
	end  bool
}

// NewFollow is for a first job of so many ranks, which name tells of. now is the time since they were started.
func NewFollow(cfg Config, ranks int, name func(id int) string, now func() time.Duration) *Follow {
	return &Follow{cfg: cfg, prefixes: prefixes(cfg.Patterns), ranks: ranks, now: now, wake: make(chan struct{}, 1),
		torn: map[lane]bool{}, begun: map[lane]bool{}, judge: NewJudge(cfg, name)}
}

// Put takes what a rank wrote, which nobody changes any more. It does not block. Lines in which nothing can match wait for no reader: they are
// looked over here, where they are in the processor's cache, and a flood of them wakes nobody.
func (f *Follow) Put(id int, stream job.Stream, data []byte) {
	if f.deaf(id) {
		return
	}
	of, now := lane{id, stream}, time.Now()
	f.mu.Lock()
	begun := f.begun[of]
	f.mu.Unlock()
	head := 0 // what ends a line that was begun
	if begun {
		if head = bytes.IndexByte(data, '\n') + 1; head == 0 {
			head = len(data)
		}
	}
	rest := data[head+silent(f.prefixes, data[head:]):]
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, part := range [][]byte{data[:head], rest} {
		if 2*len(part) < len(data) {
			part = bytes.Clone(part) // else little that waits, and counts as little, would keep all of data
		}
		if len(part) > 0 {
			f.put(chunk{lane: of, data: part, at: now})
		}
	}
}

// deaf says that nobody looks at what a rank writes.
func (f *Follow) deaf(id int) bool { return id >= f.ranks || f.cfg.Rank >= 0 && id != f.cfg.Rank }

// Told takes lines of the file that a rank has for them, which nobody changes any more. It does not block.
func (f *Follow) Told(id int, lines []byte) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.deaf(id) {
		f.put(chunk{lane: lane{id, file}, data: lines, at: time.Now()})
	}
}

// End says that a rank writes no more.
func (f *Follow) End(id int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.deaf(id) {
		f.put(chunk{lane: lane{id: id}, end: true})
	}
}

// put is called with mu held.
func (f *Follow) put(c chunk) {
	if !c.end && f.queued+len(c.data)+pieceSize > maxQueued {
		f.torn[c.lane], f.begun[c.lane] = true, true
		f.left += len(c.data)
		return
	}
	c.torn = f.torn[c.lane]
	delete(f.torn, c.lane)
	if n := len(c.data); n > 0 {
		f.begun[c.lane] = c.data[n-1] != '\n' && c.data[n-1] != '\r'
	}
	f.queued += len(c.data) + pieceSize
	f.queue = append(f.queue, c)
	f.awake()
}

// Close says that nothing more comes. Run returns when it has read all.
func (f *Follow) Close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	f.awake()
}

func (f *Follow) awake() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

func (f *Follow) take() (list []chunk, closed bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	list, f.queue, f.queued = f.queue, nil, 0
	return list, f.closed
}

// Run reads until Close, or until ctx ends.
func (f *Follow) Run(ctx context.Context) {
	reader := Reader{Patterns: f.cfg.Patterns}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f.judging.Lock()
			wrong := f.judge.Tick(f.now())
			f.judging.Unlock()
			for _, w := range wrong {
				f.Found(w)
			}
		case <-f.wake:
			list, closed := f.take()
			for _, c := range list {
				f.read(&reader, c)
			}
			if closed {
				return
			}
		}
	}
}

func (f *Follow) read(reader *Reader, c chunk) {
	if c.end {
		f.judging.Lock()
		f.judge.End(c.id)
		f.judging.Unlock()
		return
	}
	if c.torn {
		reader.Torn(c.id, c.stream)
	}
	reader.Read(c.id, c.stream, c.data, c.at, func(p Point) {
		f.judging.Lock()
		counts, wrong := f.judge.Hear(f.now(), p)
		f.judging.Unlock()
		if counts && f.Keep != nil {
			f.Keep(p)
		}
		for _, w := range wrong {
			f.Found(w)
		}
	})
}

// Numbers are the newest values by their names.
func (f *Follow) Numbers() map[string]float64 {
	f.judging.Lock()
	defer f.judging.Unlock()
	return f.judge.Numbers()
}

// Status is how far the run is, in a line; "" before anything is known.
func (f *Follow) Status() string {
	f.judging.Lock()
	defer f.judging.Unlock()
	return f.judge.Status()
}

// Last is what is to be said when the ranks have ended: how far they came, and what nobody could look at.
func (f *Follow) Last() (lines []string) {
	status := f.Status()
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case status != "":
		lines = append(lines, "the ranks came to "+status)
	default:
		lines = append(lines, "no line of the ranks has matched --watch (mpiup help progress)")
	}
	if f.left > 0 {
		lines = append(lines, fmt.Sprintf("--watch did not look at %d bytes of output, which came faster than patterns can be compared", f.left))
	}
	return lines
}
