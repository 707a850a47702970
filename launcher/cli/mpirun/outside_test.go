package mpirun

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// world is what a test's command line may refer to.
type world struct {
	env       string // NAME=value, blanks between
	files     map[string]string
	operators string // the operator's hostfile
}

func (w world) outside() line.Outside {
	env := strings.Fields(w.env)
	return line.Outside{
		Lookup: func(name string) (string, bool) {
			for _, kv := range env {
				if v, ok := strings.CutPrefix(kv, name+"="); ok {
					return v, true
				}
			}
			return "", false
		},
		Environ: env, Dir: "/here", Host: "me.ns",
		ReadFile: func(path string) ([]byte, error) {
			text, ok := w.files[path]
			if !ok {
				return nil, fs.ErrNotExist
			}
			return []byte(text), nil
		},
		Hostfile: func(path string, d hostlist.Dialect) ([]hostlist.Entry, error) {
			text, ok := w.files[path]
			if !ok {
				return nil, errors.New("hostfile " + path + ": no such file")
			}
			return hostlist.ParseFile(text, path, d)
		},
		Operators: func() ([]hostlist.Entry, error) {
			if w.operators == "" {
				return nil, nil
			}
			return hostlist.ParseFile(w.operators, "/etc/mpi/hostfile", hostlist.Own)
		},
	}
}

// words splits a line at blanks; what stands in single quotes is one word.
func words(t *testing.T, line string) (out []string) {
	t.Helper()
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			out = append(out, part)
		} else {
			out = append(out, strings.Fields(part)...)
		}
	}
	return out
}

// entries are hosts as the tests write them: "a:2 b".
func entries(t *testing.T, text string) (list []hostlist.Entry) {
	t.Helper()
	for _, f := range strings.Fields(text) {
		e, err := hostlist.ParseList(f)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, e...)
	}
	return list
}

var ignored = []cmp.Option{
	cmpopts.IgnoreFields(hostlist.Entry{}, "Line", "File"), cmpopts.IgnoreFields(line.Context{}, "Listed"), cmpopts.IgnoreFields(line.Line{}, "Options"), cmpopts.IgnoreFields(line.Inherit{}, "Given"), cmpopts.EquateEmpty(),
}

// reading is a table's case: a line, and how it differs from a run of one program "a" without anything.
type reading struct {
	line string
	is   func(l *line.Line)
	world
}

func read(t *testing.T, f line.Family, cases []reading) {
	t.Helper()
	for _, tt := range cases {
		want := line.Line{Family: f, Contexts: []line.Context{{Argv: []string{"a"}}}}
		if tt.is != nil {
			tt.is(&want)
		}
		got, err := Parse(f, words(t, tt.line), tt.outside())
		if err != nil {
			t.Errorf("%s: %v", tt.line, err)
			continue
		}
		if d := cmp.Diff(want, got, ignored...); d != "" {
			t.Errorf("%s:\n%s", tt.line, d)
		}
	}
}

// refusal is a line that is an error.
type refusal struct {
	line, says string
	world
}

func refuse(t *testing.T, f line.Family, cases []refusal) {
	t.Helper()
	for _, tt := range cases {
		_, err := Parse(f, words(t, tt.line), tt.outside())
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: error %v, not %q", tt.line, err, tt.says)
		}
	}
}

// one changes the only program.
func one(change func(c *line.Context)) func(*line.Line) {
	return func(l *line.Line) { change(&l.Contexts[0]) }
}

func env(kvs ...string) func(*line.Line) {
	return one(func(c *line.Context) { c.Env = kvs })
}

func hosts(t *testing.T, text string) func(*line.Line) {
	return func(l *line.Line) { l.Entries = entries(t, text) }
}

func all(changes ...func(*line.Line)) func(*line.Line) {
	return func(l *line.Line) {
		for _, c := range changes {
			c(l)
		}
	}
}

func without(what ...string) func(*line.Line) {
	return func(l *line.Line) { l.Without = slices.Clone(what) }
}
