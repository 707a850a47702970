package mpirun

import "strings"

// Level is how far an option is done.
type Level string

// The levels.
const (
	Done     Level = "done"
	NoEffect Level = "no effect"
	Refused  Level = "refused"
)

// row is one option.
type row struct {
	names string // without hyphens, the usual one first, blanks between
	args  int    // words that follow
	joins bool   // "NAME=value" in one word stands for two
	level Level
	local bool   // may stand again before each program
	means string // what it means here, or why it is refused and what to use
	set   func(p *parser, args []string) error
}

// names of a row as a user writes them.
func (r *row) spelled() []string {
	names := strings.Fields(r.names)
	for i, n := range names {
		names[i] = hyphens(n) + n
	}
	return names
}

// name is the usual one.
func (r *row) name() string {
	name, _, _ := strings.Cut(r.names, " ")
	return name
}

func hyphens(name string) string {
	if len(name) == 1 {
		return "-"
	}
	return "--"
}

// table finds rows by name.
type table map[string]*row

func index(rows []row) table {
	t := table{}
	for i := range rows {
		for _, n := range strings.Fields(rows[i].names) {
			t[n] = &rows[i]
		}
	}
	return t
}

// tableOf is the rows of a family. They are made when they are first needed, as rows refer to the
// parser.
func tableOf(f Family) []row {
	if f == Hydra {
		return append(hydraRows(), commonRows()...)
	}
	return append(openMPIRows(), commonRows()...)
}
