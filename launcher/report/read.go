package report

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// Bounds of what is read. A report may be hostile: anybody may have written it.
const (
	maxJSON   = 64 << 20  // bytes
	maxValues = 384 << 10 // texts, numbers, fields and what holds them
)

// FileName is that of a report in its folder.
const FileName = "report.json"

// Mark is the first value of a report's JSON, by which it is told from another program's. Whoever writes a file can write it, too: what is
// read is judged all the same (Check).
const Mark = "what remains of a run of mpiup"

// ErrNone is what Read gives of anything but a report, as a log is.
var ErrNone = errors.New("it holds no report: mpiup run --report DIR writes one")

// Read reads a report's JSON, which is all that the file has: what only begins as one, as a log may, is none. Of that the error is ErrNone, and rest
// has all that was in the file, from its beginning. What is taken is bounded.
func Read(in io.Reader) (r *Report, rest io.Reader, err error) {
	from := bufio.NewReader(in)
	first, err := from.Peek(mostBlank + len(Mark))
	if err != nil && err != io.EOF { // nobody knows what it holds
		return nil, from, err
	}
	if !marked(first) {
		return nil, from, ErrNone
	}
	text, err := io.ReadAll(io.LimitReader(from, maxJSON+1))
	rest = io.MultiReader(bytes.NewReader(text), from)
	if err != nil {
		return nil, rest, err
	}
	if len(text) > maxJSON {
		return nil, rest, fmt.Errorf("%w: what begins as one has more than %d bytes", ErrNone, maxJSON)
	}
	r, err = Parse(text)
	return r, rest, err
}

// mostBlank is how much may stand around and between the first tokens of a report.
const mostBlank = 64

// IsMarked says that a file begins as a report does, which it may be then.
func IsMarked(r io.Reader) bool {
	first := make([]byte, mostBlank+len(Mark))
	n, _ := io.ReadFull(r, first)
	return marked(first[:n])
}

func marked(text []byte) bool {
	for _, token := range []string{"{", `"mark"`, ":", strconv.Quote(Mark)} {
		rest, ok := bytes.CutPrefix(bytes.TrimLeft(text, blanks), []byte(token))
		if !ok {
			return false
		}
		text = rest
	}
	return true
}

// blanks may stand between the tokens of JSON (RFC 8259, section 2).
const blanks = " \t\r\n"

// Parse reads a report's JSON, and is the only one that does. It is counted before any of it becomes memory: an object of two bytes may be one
// of 200 here.
func Parse(text []byte) (*Report, error) {
	if !json.Valid(text) { // as a log is whose first line is a report, or the half of one
		return nil, fmt.Errorf("%w: what begins as one is not one JSON object from its first byte to its last", ErrNone)
	}
	if err := crowded(text); err != nil {
		return nil, err
	}
	r := new(Report)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("it is no report: %w", err)
	}
	if err := r.Check(); err != nil {
		return nil, err
	}
	return r, nil
}

// Check judges a report that somebody else may have written: what no run leaves is an error, and of the verdict stays what can be one
// (verdict.Checked). Whoever parses a report calls it before anything else is done with it.
func (r *Report) Check() error {
	if r.Mark != Mark {
		return fmt.Errorf("%w: it lacks the mark of one", ErrNone)
	}
	if r.Version != Version {
		return fmt.Errorf("it is a report of form %d; this mpiup reads form %d", r.Version, Version)
	}
	if len(r.Ranks) > maxRanks || len(r.Programs) > maxPrograms || len(r.Events) > maxEvents || len(r.Restarts) > maxRestarts {
		return errors.New("it is no report: no run leaves so many ranks, programs, events or restarts")
	}
	if len(r.Machines) > maxMachines {
		return fmt.Errorf("it is no report: it has more than %d kinds of machines", maxMachines)
	}
	if !fits(r.Rows, r.Curves, r.Memory) || len(r.Spent) > maxCurves || len(r.Waits) > maxWaits || len(r.Phases) > maxPhases {
		return errors.New("it is no report: its rows or curves are too long, or lack parts")
	}
	if i := slices.IndexFunc(r.Ranks, func(p Rank) bool { return p.Job == 0 && (p.Rank < 0 || p.Rank >= maxRanks) }); i >= 0 {
		return fmt.Errorf("it is no report: it has rank %d, and no report has more than %d", r.Ranks[i].Rank, maxRanks)
	}
	if r.Verdict != nil {
		checked, err := r.Verdict.Checked()
		if err != nil {
			return fmt.Errorf("it is no report: %w", err)
		}
		r.Verdict = &checked
	}
	for i := range r.Restarts {
		again := &r.Restarts[i]
		if again.Kind != "" && verdict.Of(again.Kind).Title == "" {
			return fmt.Errorf("it is no report: %w", verdict.ErrKind)
		}
	}
	for i := range r.Ranks {
		p := &r.Ranks[i]
		p.End = ends().FindString(p.End)
	}
	return nil
}

// ends are how a rank's end is told (Keeper.Ended, Keeper.NotStarted, whose reason is an event, too).
var ends = pattern.Of(`^(?:exit code \d{1,3}$|signal \d{1,3} \([\w+]{1,32}\)$|` + LostWithHost + `$|was not started)`)

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
