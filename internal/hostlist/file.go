package hostlist

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/internal/visible"
)

const maxLine = 64 << 10

// Open MPI's scanner takes white space around "=" (orte/util/hostfile/hostfile_lex.l).
var aroundEquals = pattern.Of(`[ \t]*=[ \t]*`)

// ReadFile reads the hostfile at path. An error names path, and errno when it cannot be read.
func ReadFile(path string) ([]Entry, error) { return ReadFileAs(path, Own) }

// ReadFileAs is ReadFile by the rules of a dialect.
func ReadFileAs(path string, d Dialect) ([]Entry, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("hostfile %s: %w; name a readable file, or the hosts with --host", path, errno(err))
	}
	defer f.Close()
	return ParseFileAs(f, path, d)
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

// ParseFile reads a hostfile from r; name stands in errors and in Entry.File.
// A file that names no host is an error.
func ParseFile(r io.Reader, name string) ([]Entry, error) { return ParseFileAs(r, name, Own) }

// ParseFileAs is ParseFile by the rules of a dialect.
func ParseFileAs(r io.Reader, name string, d Dialect) ([]Entry, error) {
	limited := &io.LimitedReader{R: r, N: MaxFile + 1}
	scan := bufio.NewScanner(limited)
	scan.Buffer(nil, maxLine)
	var entries []Entry
	seen, left := map[string]int{}, maxRanges
	line := 0
	for scan.Scan() {
		line++
		fields := fieldsOf(scan.Text())
		if len(fields) == 0 {
			continue
		}
		some, err := parseLine(fields, d, &left)
		if err != nil {
			return nil, &LineError{File: name, Line: line, Err: err}
		}
		for _, e := range some {
			e.Line, e.File = line, name
			if entries, err = d.add(entries, seen, e); err != nil {
				return nil, err
			}
		}
		if len(entries) > MaxHosts {
			return nil, fmt.Errorf("hostfile %s line %d: more than %d hosts", name, line, MaxHosts)
		}
	}
	switch err := scan.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		return nil, fmt.Errorf("hostfile %s line %d: longer than %d bytes; is this a hostfile?", name, line+1, maxLine)
	case err != nil && line == 0: // a directory, for one
		return nil, fmt.Errorf("hostfile %s: %w", name, errno(err))
	case err != nil:
		return nil, fmt.Errorf("hostfile %s line %d: %w", name, line+1, errno(err))
	case limited.N == 0:
		return nil, fmt.Errorf("hostfile %s: larger than %d bytes; is this a hostfile?", name, MaxFile)
	case len(entries) == 0:
		return nil, fmt.Errorf("hostfile %s names no host", name)
	}
	return entries, nil
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
	e, err := parseHost(name)
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
		n, err := parseSlots(value)
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

// errno is what went wrong without the operation and the path, which the caller says.
func errno(err error) error {
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}
