package report

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/visible"
)

// Bounds of what is read. A log may be hostile: anybody's job may have written it.
const (
	maxJSON   = 64 << 20  // bytes of a report in a file of its own
	maxValues = 384 << 10 // of a report: texts, numbers, fields and what holds them
	maxOpen   = 8         // reports of one log that lack parts: the newest
	maxWhole  = 4         // reports of one log that are whole: the newest
	longest   = 1 << 20   // bytes of a log's line; a longer one is no part of a report
)

// said stands before mpiup's own sentences, which quote what ranks wrote.
const said = "mpiup: "

// ErrNone is what Unseal returns for a log that holds no report.
var ErrNone = errors.New("it holds no report: mpiup run --seal writes one as the last lines of the launcher's log")

// Unseal finds the newest whole report in a log. ofRank says of a line that a rank's tag stands before it: such a line is none of mpiup's. Each doubt
// is a sentence for whoever reads the report.
func Unseal(log io.Reader, ofRank func(line string) bool) (r *Report, doubts []string, err error) {
	lines := bufio.NewReaderSize(log, 64<<10)
	var s shelf
	for {
		line, err := readLine(lines)
		if i := strings.LastIndex(line, word); i >= 0 && !ofRank(line) && !strings.Contains(line[:i], said) {
			s.line(line[i+len(word):])
		}
		if err == io.EOF {
			return s.newest()
		}
		if err != nil {
			return nil, nil, err
		}
	}
}

// shelf is what a log has held so far.
type shelf struct {
	promise string // that no report has kept yet; "": none
	open    []torn
	whole   []sealed
	count   int   // of whole ones
	last    error // why one is not whole
}

// torn is a report some of whose lines have come.
type torn struct {
	id    string
	texts []string
}

// sealed is a whole one, packed.
type sealed struct {
	id       string
	packed   []byte
	promised bool
}

// line takes what stands behind the word.
func (s *shelf) line(text string) {
	if digest, ok := strings.CutPrefix(text, begins); ok {
		digest = digest[:len(digest)-len(strings.TrimLeft(digest, hexRunes))]
		if s.promise == "" && len(digest) == 64 { // what comes before that one is kept is no launcher's word
			s.promise = strings.Clone(digest)
		}
		return
	}
	id, at, count, text, ok := part(text)
	if !ok {
		return
	}
	i := slices.IndexFunc(s.open, func(t torn) bool { return t.id == id && len(t.texts) == count })
	if i < 0 {
		if len(s.open) == maxOpen {
			s.miss(s.open[0])
			s.open = slices.Delete(s.open, 0, 1)
		}
		i = len(s.open)
		s.open = append(s.open, torn{strings.Clone(id), make([]string, count)})
	}
	t := s.open[i]
	t.texts[at-1] = strings.Clone(text)
	if at < count {
		return
	}
	s.open = slices.Delete(s.open, i, i+1)
	if slices.Contains(t.texts, "") {
		s.miss(t)
		return
	}
	packed, err := base64.StdEncoding.DecodeString(strings.Join(t.texts, ""))
	if err != nil || sum(packed) != t.id {
		s.last = fmt.Errorf("report %s is damaged: its lines were cut or changed on the way", t.id)
		return
	}
	s.put(t.id, packed)
}

func (s *shelf) miss(t torn) {
	if at := slices.Index(t.texts, "") + 1; t.texts[len(t.texts)-1] != "" {
		s.last = fmt.Errorf("report %s is not whole: its line %d of %d is missing", t.id, at, len(t.texts))
		return
	}
	s.last = errors.New("the report is not whole: the log ends within it")
}

func (s *shelf) put(id string, packed []byte) {
	is := sealed{id: id, packed: packed}
	if k := (Key{}); s.promise != "" && len(packed) > len(k) {
		copy(k[:], packed[len(packed)-len(k):])
		if is.promised = k.digest() == s.promise; is.promised {
			s.promise = ""
		}
	}
	s.count++
	if len(s.whole) == maxWhole {
		s.whole = slices.Delete(s.whole, 0, 1)
	}
	s.whole = append(s.whole, is)
}

// newest opens the newest report that can be opened, and says what is odd about it.
func (s *shelf) newest() (*Report, []string, error) {
	for _, t := range s.open {
		s.miss(t)
	}
	room := maxUnpacked
	for _, is := range slices.Backward(s.whole) {
		text, err := unpack(is.packed, room)
		room -= len(text)
		var r *Report
		if err == nil {
			r, err = parse(text)
		}
		if err != nil {
			s.last = fmt.Errorf("report %s: %w", is.id, err)
			continue
		}
		return r, s.doubts(is), nil
	}
	if s.last == nil {
		s.last = ErrNone
	}
	return nil, nil, s.last
}

func (s *shelf) doubts(shown sealed) (list []string) {
	if s.count > 1 {
		list = append(list, fmt.Sprintf("the log holds %s: the newest that can be read is shown", visible.Count(s.count, "report")))
	}
	if s.last != nil {
		list = append(list, "the log holds another report that cannot be read: "+s.last.Error())
	}
	switch {
	case shown.promised:
	case s.promise != "":
		list = append(list, "a rank may have written this report: it is not the one that the launcher promised when it began (mpiup-report begins)")
	default:
		list = append(list, "nothing proves that the launcher wrote this report and no rank did: the log lacks the "+
			"beginning, where the launcher promises it (mpiup-report begins)")
	}
	return list
}

// readLine is the next line; one that is too long to be a part comes as none.
func readLine(r *bufio.Reader) (string, error) {
	var line []byte
	long := false
	for {
		piece, err := r.ReadSlice('\n')
		if long = long || len(line)+len(piece) > longest; !long {
			line = append(line, piece...)
		}
		if err == bufio.ErrBufferFull {
			continue
		}
		if long {
			line = nil
		}
		return strings.TrimRight(string(line), "\r\n"), err
	}
}

// part takes what stands behind the word apart: "9f3c01ab 2/5 TEXT".
func part(behind string) (id string, at, count int, text string, ok bool) {
	id, behind, _ = strings.Cut(behind, " ")
	place, text, ok := strings.Cut(behind, " ")
	first, second, _ := strings.Cut(place, "/")
	at, err1 := strconv.Atoi(first)
	count, err2 := strconv.Atoi(second)
	text = text[:len(text)-len(strings.TrimLeft(text, base64Runes))]
	ok = ok && len(id) == 8 && strings.Trim(id, hexRunes) == "" && err1 == nil && err2 == nil && at >= 1 && at <= count && count <= maxParts &&
		text != "" && len(text) <= lineBytes
	return id, at, count, text, ok
}

const (
	hexRunes    = "0123456789abcdef"
	base64Runes = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/="
)

// unpack is the JSON of a report, of at most room bytes. A key may stand behind it.
func unpack(packed []byte, room int) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	z.Multistream(false)
	return bounded.Read(z, room)
}

// FileName is that of a report in its folder.
const FileName = "report.json"

// Read finds a report in a log, as Unseal does, or reads its JSON. What it takes is bounded.
func Read(r *bufio.Reader, ofRank func(line string) bool) (is *Report, doubts []string, err error) {
	if !IsJSON(r) {
		return Unseal(r, ofRank)
	}
	text, err := bounded.Read(r, maxJSON)
	if err != nil {
		return nil, nil, err
	}
	is, err = parse(text)
	return is, nil, err
}

// IsJSON says that a report's JSON begins there, and no log.
func IsJSON(r *bufio.Reader) bool {
	first, _ := r.Peek(2 * len(jsonStart))
	return strings.HasPrefix(strings.Join(strings.Fields(string(first)), ""), jsonStart)
}

// IsPart says that a line of a log is part of a sealed report.
func IsPart(line string) bool {
	_, behind, ok := strings.Cut(line, word)
	_, _, _, _, part := part(behind)
	return ok && (part || strings.HasPrefix(behind, begins))
}

// jsonStart is what a report's JSON begins with.
const jsonStart = "{\"version\":"

// parse reads a report's JSON. It is counted before any of it becomes memory: an object of two bytes may be one of 200 here.
func parse(text []byte) (*Report, error) {
	if err := crowded(text); err != nil {
		return nil, err
	}
	r := new(Report)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("it is no report: %w", err)
	}
	if r.Version != Version {
		return nil, fmt.Errorf("it is a report of form %d; this mpiup reads form %d", r.Version, Version)
	}
	if len(r.Ranks) > maxRanks || len(r.Programs) > maxPrograms || len(r.Events) > MaxEvents || len(r.Restarts) > maxRestarts {
		return nil, errors.New("it is no report: no run leaves so many ranks, programs, events or restarts")
	}
	if len(r.Machines) > maxMachines {
		return nil, fmt.Errorf("it is no report: it has more than %d kinds of machines", maxMachines)
	}
	if !fits(r.Rows, r.Curves, r.Memory) || len(r.Spent) > maxCurves || len(r.Waits) > maxWaits || len(r.Phases) > maxPhases {
		return nil, errors.New("it is no report: its rows or curves are too long, or lack parts")
	}
	if i := slices.IndexFunc(r.Ranks, func(p Rank) bool { return p.Job == 0 && (p.Rank < 0 || p.Rank >= maxRanks) }); i >= 0 {
		return nil, fmt.Errorf("it is no report: it has rank %d, and no report has more than %d", r.Ranks[i].Rank, maxRanks)
	}
	return r, nil
}

// crowded is an error if JSON has more values than any report.
func crowded(text []byte) error {
	values, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '{' || c == '['):
			values++
		}
	}
	if values > maxValues {
		return fmt.Errorf("it is no report: it has more than %d values", maxValues)
	}
	return nil
}
