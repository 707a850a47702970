package hostlist

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/internal/visible"
)

const maxLine = 64 << 10

// Open MPI's scanner takes white space around "=" (orte/util/hostfile/hostfile_lex.l).
var aroundEquals = pattern.Of(`[ \t]*=[ \t]*`)

// ReadFile reads the hostfile at path. An error names path, and errno when it cannot be read.
func ReadFile(path string, d Dialect) ([]Entry, error) {
	text, err := bounded.File(path, MaxFile)
	var failed *fs.PathError
	switch {
	case errors.Is(err, bounded.ErrTooLarge):
		return nil, fmt.Errorf("hostfile %s: larger than %d bytes; is this a hostfile?", path, MaxFile)
	case errors.As(err, &failed) && failed.Op == "open":
		return nil, fmt.Errorf("hostfile %s: %w; name a readable file, or the hosts with --host", path, failed.Err)
	case err != nil: // a directory, for one
		return nil, fmt.Errorf("hostfile %s: %w", path, bounded.Cause(err))
	}
	return ParseFile(string(text), path, d)
}

// LineError says what is wrong with a line of a hostfile. Err quotes it. Give File and Line alone to those
// who must not see the file's text.
type LineError struct {
	File string
	Line int // from 1
	Err  error
}

func (e *LineError) Error() string {
	return fmt.Sprintf("hostfile %s line %d: %v", e.File, e.Line, e.Err)
}

// Unwrap returns what is wrong.
func (e *LineError) Unwrap() error { return e.Err }

// ParseFile reads a hostfile's text; name stands in errors and in Entry.File.
// A file that names no host is an error.
func ParseFile(text, name string, d Dialect) ([]Entry, error) {
	_, entries, err := parseFile(text, name, d, false)
	return entries, err
}

// parseFile reads a hostfile's text, and where its lines stand for ranks the places of these.
func parseFile(text, name string, d Dialect, ranks bool) (places []Place, entries []Entry, err error) {
	seen, left := map[string]int{}, maxRanges
	without := map[string]bool{} // hosts that "^NAME" excludes, by key
	line := 0
	for raw := range strings.Lines(text) {
		if line++; len(raw) > maxLine {
			return nil, nil, fmt.Errorf("hostfile %s line %d: longer than %d bytes; is this a hostfile?", name, line, maxLine)
		}
		fields, cpus := fieldsOf(raw), ""
		if len(fields) == 0 {
			continue
		}
		if ranks {
			fields, cpus = cpusApart(fields)
		}
		if host, excluded := strings.CutPrefix(fields[0], "^"); excluded && d == OpenMPI && len(fields) == 1 {
			if err := CheckName(host); err != nil {
				return nil, nil, &LineError{File: name, Line: line, Err: err}
			}
			without[key(host)] = true
			continue
		}
		some, err := parseLine(fields, d, &left)
		if err != nil {
			return nil, nil, &LineError{File: name, Line: line, Err: err}
		}
		for _, e := range some {
			e.Line, e.File = line, name
			if entries, err = d.add(entries, seen, e); err != nil {
				return nil, nil, err
			}
			if ranks {
				places = append(places, Place{Name: e.Name, CPUs: cpus, Line: line})
			}
		}
		switch {
		case len(entries) > MaxHosts:
			return nil, nil, fmt.Errorf("hostfile %s line %d: more than %d hosts", name, line, MaxHosts)
		case len(places) > MaxPlaces:
			return nil, nil, fmt.Errorf("hostfile %s line %d: more than %d ranks", name, line, MaxPlaces)
		}
	}
	if len(without) > 0 {
		entries = slices.DeleteFunc(entries, func(e Entry) bool { return without[key(e.Name)] })
		places = slices.DeleteFunc(places, func(p Place) bool { return without[key(p.Name)] })
	}
	if len(entries) == 0 {
		return nil, nil, fmt.Errorf("hostfile %s names no host", name)
	}
	return places, entries, nil
}

// fieldsOf splits a line into words, without comment, carriage return or space around "=".
func fieldsOf(line string) []string {
	if i := strings.IndexByte(line, '#'); i >= 0 {
		line = line[:i]
	}
	if i := strings.Index(line, "//"); i >= 0 {
		line = line[:i]
	}
	return strings.Fields(aroundEquals().ReplaceAllString(line, "="))
}

// parseLine reads one line's words: the host, or the hosts of a range, then slots= and max_slots= in any order.
func parseLine(fields []string, d Dialect, left *ranges) ([]Entry, error) {
	names, err := left.expand(d.bare(fields[0]))
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(names))
	for i, name := range names {
		if entries[i], err = parseWords(name, fields, d); err != nil {
			return nil, err
		}
	}
	return entries, nil
}

// parseWords reads one line's words for one host.
func parseWords(name string, fields []string, d Dialect) (Entry, error) {
	e, err := parseHost(name, d)
	if err != nil {
		return e, err
	}
	limit, limited := 0, false
	for _, field := range fields[1:] {
		key, value, ok := strings.Cut(field, "=")
		if !ok {
			return e, fmt.Errorf("%s after host %s is not known; a line is \"host\", \"host slots=N\" or \"host:N\"", visible.Clip(field), e.Name)
		}
		meaning := d.meaning(key)
		switch meaning {
		case asUser:
			continue
		case unknown:
			return e, fmt.Errorf("host %s: %s is not known; write slots=N", e.Name, visible.Clip(key+"="))
		}
		n, err := parseSlots(value, d)
		if err != nil {
			return e, fmt.Errorf("host %s: %w", e.Name, err)
		}
		switch meaning {
		case asSlots:
			if e.Given {
				return e, fmt.Errorf("host %s: slots are given twice", e.Name)
			}
			e.Slots, e.Given = n, true
		case asLimit:
			limit, limited = n, true
		}
	}
	if limited && e.Slots > limit {
		return e, fmt.Errorf("host %s: slots=%d is more than max_slots=%d", e.Name, e.Slots, limit)
	}
	if limited && !e.Given && d == OpenMPI { // Open MPI takes the limit for the slots
		e.Slots, e.Given = limit, true
	}
	return e, nil
}
