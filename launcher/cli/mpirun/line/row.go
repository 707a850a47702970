package line

import (
	"strings"
)

// Level is how far an option is done.
type Level string

// The levels.
const (
	Done     Level = "done"
	NoEffect Level = "no effect"
	Warned   Level = "warned"
	Refused  Level = "refused"
)

// Row is one option.
type Row struct {
	Names string // the usual one first, blanks between; with hyphens where others than Hyphens stand before them
	Args  int    // words that follow
	Joins bool   // "NAME=value" in one word stands for two, and the first may follow "="
	Level Level
	Local bool   // may stand again before each program
	Means string // what it means here, or why it is refused and what to use
	Set   func(args []string) error
}

// Spelled is the names as a user writes them.
func (r *Row) Spelled() []string {
	names := strings.Fields(r.Names)
	for i, n := range names {
		names[i] = Hyphens(n) + n
	}
	return names
}

// Name is the usual one.
func (r *Row) Name() string {
	name, _, _ := strings.Cut(r.Names, " ")
	return name
}

// Hyphens are what stands before an option's name, which may have them already.
func Hyphens(name string) string {
	switch {
	case strings.HasPrefix(name, "-"):
		return ""
	case len(name) == 1:
		return "-"
	}
	return "--"
}

// Index finds rows by name.
func Index(rows []Row) map[string]*Row {
	t := map[string]*Row{}
	for i := range rows {
		for _, n := range strings.Fields(rows[i].Names) {
			t[n] = &rows[i]
		}
	}
	return t
}
