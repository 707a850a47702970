package iof

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
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
			return ls[max(0, len(ls)-tailLines):], s
		}
	}
	return nil, job.Stdout
}

// Said are the last lines that each process wrote, in the order of their ids, behind tags with rank, host and stream. It may be called from
// any goroutine. nil has said nothing.
func (s *Sink) Said() (text []byte) {
	const most = 32 << 20
	if s == nil {
		return nil
	}
	tags := Config{Mode: Tag, TagHost: true, TagStream: true, Process: s.cfg.Process, Host: s.cfg.Host}
	s.tails.mu.Lock()
	defer s.tails.mu.Unlock()
	keys := slices.SortedFunc(maps.Keys(s.tails.ends), func(a, b laneKey) int {
		return cmp.Or(cmp.Compare(a.id, b.id), cmp.Compare(a.stream, b.stream))
	})
	for _, k := range keys {
		tag := tags.tagger(k).tag
		for _, l := range lastLines(s.tails.ends[k]) {
			if len(text) > most {
				return text
			}
			text = append(append(append(text, tag...), l...), '\n')
		}
	}
	return text
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
	for i, l := range ls {
		l = strings.TrimRight(l, "\r")
		ls[i] = l[strings.LastIndexByte(l, '\r')+1:] // what a terminal would show
	}
	return ls
}
