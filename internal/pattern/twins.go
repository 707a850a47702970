package pattern

import (
	"slices"
	"strings"
)

// What is kept of a log, and what a line is known by.
const (
	window  = 128 // lines
	around  = 12  // lines before and after one that is watched, which may tell why
	marks   = 512 // lines that are watched
	values  = 64  // numbers of a place in them
	places  = 8   // numbers of a line, and its tag before them
	looked  = 300 // bytes of it
	meaning = 12  // letters without which it says too little
	enough  = 24  // and after which others may go on as they like, but for a code
)

// shape is a line: its numbers, and what it is without them, from its whole to its first words where those tell of a process's end.
type shape struct {
	at      int
	line    string
	numbers [places + 1]int32
	parts   [3]part
}

// part is a line to where others may go on as they like: a hash, and how many numbers stand in it. Hash 0 says too little.
type part struct {
	hash uint64
	upto int
}

// Twins finds lines that begin alike but for their numbers, or with one word of an end: what several processes say, each with its number. It
// keeps a bounded part of a log. The zero value is ready, and belongs to one goroutine.
//
//	Task 2: 56454 of 56509 particles  ──▶  Task #: # of # particles  ──▶  Task 4: 65936 of 66025 particles
//	FATAL from PE 552: no input       ──▶  FATAL from PE #           ──▶  FATAL from PE 567: no space
type Twins struct {
	last    [window]shape
	seen    int
	until   int // of lines seen: those to it are watched, too
	watched []shape
	by      map[uint64]*[places + 1][]int32 // numbers of twins by what they have in common, and by place
}

// See takes a line with its number, and that of its tag; -1: none.
func (t *Twins) See(at int, line string, tag int) {
	s := shapeOf(line, tag)
	s.at = at
	t.last[t.seen%window] = s
	if t.seen++; t.seen <= t.until {
		t.watch(s)
	}
	t.note(&s)
}

// Watch looks for twins of the line that was seen last, and of those around it.
func (t *Twins) Watch() {
	for i := max(t.seen-1-around, t.until, 0); i < t.seen; i++ {
		t.watch(t.last[i%window])
	}
	t.until = t.seen + around
}

func (t *Twins) watch(s shape) {
	if s.parts == [3]part{} || len(t.watched) >= marks {
		return
	}
	s.line = strings.Clone(s.line)
	t.watched = append(t.watched, s)
	for _, p := range s.parts {
		if p.hash == 0 || t.by[p.hash] != nil {
			continue
		}
		if t.by == nil {
			t.by = map[uint64]*[places + 1][]int32{}
		}
		t.by[p.hash] = &[places + 1][]int32{}
		for i := range min(t.seen, window) {
			if l := &t.last[i]; l.parts[0] == p || l.parts[1] == p || l.parts[2] == p {
				t.note(l)
			}
		}
	}
}

// note keeps the numbers of a twin.
func (t *Twins) note(s *shape) {
	if len(t.by) == 0 {
		return
	}
	for _, p := range s.parts {
		all := t.by[p.hash]
		if all == nil {
			continue
		}
		for i, n := range s.numbers[:p.upto] {
			if n >= 0 && len(all[i]) < values && !slices.Contains(all[i], n) {
				all[i] = append(all[i], n)
			}
		}
	}
}

// Others is the numbers that stand in the place of one in twins of a watched line, and of those around it that tell of trouble.
func (t *Twins) Others(at, number int, tells func(string) bool) (all []int) {
	for _, s := range t.watched {
		apart := max(s.at-at, at-s.at)
		place := slices.Index(s.numbers[:], int32(number))
		if place < 0 || apart > around || s.numbers[0] >= 0 && place > 0 || apart > 0 && !tells(s.line) { // with another's tag it is not that one's
			continue
		}
		for _, p := range s.parts {
			if p.hash == 0 || place >= p.upto {
				continue
			}
			for _, n := range t.by[p.hash][place] {
				if int(n) != number {
					all = append(all, int(n))
				}
			}
		}
	}
	return all
}

// shapeOf takes a line apart. A number and a colon at its beginning are a tag.
func shapeOf(line string, tag int) shape {
	const basis, prime = 14695981039346656037, 1099511628211 // FNV-1a's
	line = strings.TrimLeft(line[:min(len(line), looked)], " .()[]*<>#-=")
	s := shape{line: line}
	if head, rest, ok := strings.Cut(line[:min(len(line), 8)], ":"); ok && tag < 0 && head != "" && strings.Trim(head, "0123456789") == "" {
		tag, line = int(value(head)), strings.TrimLeft(rest+line[min(len(line), 8):], " ")
	}
	s.numbers[0] = int32(tag)
	hash, codes, letters, next := uint64(basis), uint64(0), 0, 1
	if tag >= 0 {
		hash = prime
	}
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case isDigit(c):
			n, end := numberAt(line, i)
			if told(line[:i]) {
				codes = codes<<8 ^ uint64(max(n, 0)+1)
			}
			if next == 1 && n >= 0 && ofEnd(line[:i]) {
				s.parts[0] = part{hash, 2}
			}
			if next <= places {
				s.numbers[next] = n
				next++
			}
			c, i = '#', end-1
		case c == ' ' && i > 0 && line[i-1] == ' ':
			continue
		case isLetter(c):
			if letters++; letters == enough {
				s.parts[1] = part{hash, next}
			}
		}
		hash = (hash ^ uint64(c)) * prime
	}
	for i := next; i <= places; i++ {
		s.numbers[i] = -1
	}
	if s.parts[1].hash != 0 {
		s.parts[1].hash ^= codes * prime
	}
	if letters >= meaning || tag >= 0 && letters > 2 {
		s.parts[2] = part{hash ^ codes*prime + 1, next}
	}
	return s
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

func isLetter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// numberAt is the number at a place of a line, and where it ends; -1: a fraction, a negative one, a part of a name or not decimal.
func numberAt(line string, from int) (n int32, end int) {
	for end = from; end < len(line) && isDigit(line[end]); end++ {
	}
	n = value(line[from:end])
	if from > 0 && (line[from-1] == '-' || isLetter(line[from-1]) && !ofProcess(line[:from])) ||
		from > 1 && line[from-1] == '.' && isDigit(line[from-2]) ||
		end+1 < len(line) && line[end] == '.' && isDigit(line[end+1]) {
		n = -1
	}
	if n == 0 && end < len(line) && line[end] == 'x' {
		end++
	}
	for ; end < len(line) && (isDigit(line[end]) || line[end]|0x20 >= 'a' && line[end]|0x20 <= 'f'); end++ {
		n = -1
	}
	return n, end
}

// value is -1 of a number that is too high for a rank.
func value(digits string) (n int32) {
	for i := range len(digits) {
		if n = 10*n + int32(digits[i]-'0'); n > 1<<20 {
			return -1
		}
	}
	return n
}

// told says that a number after a text is a signal's or a code's, of which another is another end.
func told(start string) bool {
	start = strings.TrimRight(start, " :=(")
	return strings.HasSuffix(start, "ignal") || strings.HasSuffix(start, "code") || strings.HasSuffix(start, "status")
}

// ofProcess says that a text goes on with a process's number.
func ofProcess(start string) bool {
	start = strings.TrimRight(start, " #:=[(")
	return slices.Contains(processes, strings.ToLower(start[strings.LastIndexAny(start, " \t([=:_/.,'\"-")+1:]))
}

var processes = []string{"pe", "rank", "task", "proc", "process", "processor", "node", "image", "worker", "mpi", "p"}

// ofEnd says that a line which goes on with a process's number tells of its end.
func ofEnd(start string) bool {
	lower := strings.ToLower(start)
	return (strings.Contains(lower, "fatal") || strings.Contains(lower, "error") || strings.Contains(lower, "abort")) && ofProcess(start)
}

var anyNumber = Of(`[0-9a-f]*[0-9][0-9a-f]*`)

// Alike is the beginning of a line without what differs from rank to rank: its numbers, and addresses.
func Alike(line string) string {
	line = anyNumber().ReplaceAllString(line, "")
	return line[:min(len(line), 60)]
}
