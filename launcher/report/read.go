package report

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// Bounds of what is read. A report may be hostile: anybody may have written it.
const (
	maxJSON   = 64 << 20  // bytes
	maxValues = 384 << 10 // texts, numbers, fields and what holds them
)

// FileName is that of a report in its folder.
const FileName = "report.json"

// ErrNone is what Read returns of anything but a report, as a log is.
var ErrNone = errors.New("it holds no report: mpiup run --report DIR writes one")

// Read reads a report's JSON. What it takes is bounded. Of what is no report it takes nothing, and the error is ErrNone.
func Read(r *bufio.Reader) (*Report, error) {
	if _, err := r.Peek(1); err != nil && err != io.EOF { // nobody knows what it holds
		return nil, err
	}
	if !IsJSON(r) {
		return nil, ErrNone
	}
	text, err := bounded.Read(r, maxJSON)
	if err != nil {
		return nil, err
	}
	return parse(text)
}

// IsJSON says that a report's JSON begins there, and no log.
func IsJSON(r *bufio.Reader) bool {
	first, _ := r.Peek(2 * len(jsonStart))
	return strings.HasPrefix(strings.Join(strings.Fields(string(first)), ""), jsonStart)
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
	if err := r.Check(); err != nil {
		return nil, err
	}
	return r, nil
}

// Check judges a report that somebody else may have written: what no run leaves is an error, and of the verdict stays what can be one
// (verdict.Checked). Whoever parses a report calls it before anything else is done with it.
func (r *Report) Check() error {
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
		checked := r.Verdict.Checked()
		r.Verdict = &checked
	}
	for i := range r.Restarts {
		cause := verdict.Verdict{Kind: r.Restarts[i].Kind}.Checked()
		r.Restarts[i].Kind = cause.Kind
	}
	return nil
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
