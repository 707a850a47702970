package iof

import (
	"bytes"
	"strings"
	"sync"

	"github.com/mpiup/mpiup/internal/job"
)

const (
	tailBytes = 2 << 10
	tailLines = 10
)

// tails keeps the end of what each process wrote, for the message about its failure.
type tails struct {
	mu   sync.Mutex
	ends map[laneKey][]byte // at most twice tailBytes each, guarded by mu
}

func newTails() *tails { return &tails{ends: map[laneKey][]byte{}} }

func (t *tails) add(id int, s job.Stream, data []byte) {
	if len(data) > tailBytes {
		data = data[len(data)-tailBytes:]
	}
	k := laneKey{id, s}
	t.mu.Lock()
	defer t.mu.Unlock()
	have := t.ends[k]
	if len(have)+len(data) > 2*tailBytes {
		have = append(have[:0], have[max(0, len(have)-tailBytes):]...)
	}
	t.ends[k] = append(have, data...)
}

// lines returns the last lines of stderr, or of stdout if there is nothing on stderr, and which it is.
func (t *tails) lines(id int) ([]string, job.Stream) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range []job.Stream{job.Stderr, job.Stdout} {
		if ls := lastLines(t.ends[laneKey{id, s}]); len(ls) > 0 {
			return ls, s
		}
	}
	return nil, job.Stdout
}

// lastLines splits the end of an output into lines: without empty ones at the end, and
// without the first if it may be torn.
func lastLines(b []byte) []string {
	torn := len(b) >= tailBytes
	b = b[max(0, len(b)-tailBytes):]
	b = bytes.TrimRight(b, "\r\n")
	if len(b) == 0 {
		return nil
	}
	ls := strings.Split(strings.ToValidUTF8(string(b), "\uFFFD"), "\n")
	if torn && len(ls) > 1 {
		ls = ls[1:]
	}
	ls = ls[max(0, len(ls)-tailLines):]
	for i, l := range ls {
		l = strings.TrimRight(l, "\r")
		ls[i] = l[strings.LastIndexByte(l, '\r')+1:] // what a terminal would show
	}
	return ls
}
