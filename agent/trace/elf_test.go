package trace

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/need"
)

// Three languages, of which each writes its own back-trace as Open MPI's handler does, by backtrace(3).
var crashing = map[string]string{
	"solver.c": `#include <execinfo.h>
#include <signal.h>
#include <unistd.h>
static void handler(int s) { void *a[16]; backtrace_symbols_fd(a, backtrace(a, 16), 2); signal(s, SIG_DFL); raise(s); }
void step(int *p) {
  *p = 1;
}
int main(int c, char **v) {
  void *a[1];
  backtrace(a, 1);
  signal(SIGSEGV, handler);
  step((int *)(long)(c - 1));
  return 0;
}
`,
	"solver.cc": `#include <csignal>
#include <execinfo.h>
namespace flux { struct Solver { int *p; void step(int n); }; }
static void handler(int s) { void *a[16]; backtrace_symbols_fd(a, backtrace(a, 16), 2); signal(s, SIG_DFL); raise(s); }
void flux::Solver::step(int n) {
  p[0] = n;
}
int main(int c, char **) {
  void *a[1];
  backtrace(a, 1);
  signal(SIGSEGV, handler);
  flux::Solver{(int *)(long)(c - 1)}.step(3);
}
`,
}

// Where a program has lines its own handler's frames get them, of each version of DWARF, of programs that move in memory and of those that do not.
func TestResolve(t *testing.T) {
	need.Program(t, "gcc", "gcc")
	for name, tt := range map[string]struct {
		source, options string
		want            []string
	}{
		"C":                       {"solver.c", "", []string{"step (solver.c:6)", "main (solver.c:12)"}},
		"C, DWARF 4":              {"solver.c", "-gdwarf-4", []string{"step (solver.c:6)", "main (solver.c:12)"}},
		"C, DWARF 3":              {"solver.c", "-gdwarf-3", []string{"step (solver.c:6)", "main (solver.c:12)"}},
		"C, 64 bits":              {"solver.c", "-gdwarf64", []string{"step (solver.c:6)", "main (solver.c:12)"}},
		"C, sections are packed":  {"solver.c", "-gz", []string{"step (solver.c:6)", "main (solver.c:12)"}},
		"C, it shows its symbols": {"solver.c", "-rdynamic", []string{"step (solver.c:6)", "main (solver.c:12)"}},
		"C, fixed":                {"solver.c", "-no-pie", []string{"step (solver.c:6)", "main (solver.c:12)"}},
		"C++":                     {"solver.cc", "-lstdc++", []string{"flux::Solver::step (solver.cc:6)", "main (solver.cc:12)"}},
		"stripped":                {"solver.c", "-s", nil},
		"without lines":           {"solver.c", "-g0", nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, tt.source), []byte(crashing[tt.source]), 0o600); err != nil {
				t.Fatal(err)
			}
			build := exec.Command("gcc", append([]string{"-g", "-O0", "-o", "solver", tt.source}, strings.Fields(tt.options)...)...)
			build.Dir = dir
			if out, err := build.CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			crash := exec.Command("./solver")
			crash.Dir = dir
			out, err := crash.CombinedOutput()
			if err == nil {
				t.Fatal("it has not crashed")
			}
			list := Resolve(t.Context(), string(out), hold(t, dir))
			list = slices.DeleteFunc(list, func(p job.Placed) bool { return strings.HasPrefix(p.Place, "handler (") })
			var got []string
			for _, p := range list {
				got = append(got, p.Place)
				if !regexp.MustCompile(`^(solver(\+0x[0-9a-f]+)?|\S+ \(solver\))$`).MatchString(p.Frame) {
					t.Errorf("%+v", p)
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%q of\n%s", got, out)
			}
		})
	}
}

func TestPlainName(t *testing.T) {
	for name, want := range map[string]string{
		"main": "main", "_Z4stepPi": "step", "_ZN4flux6Solver4stepEi": "flux::Solver::step", "_ZNK1a1bEv": "a::b", "_ZL7handleri": "handler",
		"_ZNSt6vectorIiE9push_backEv": "_ZNSt6vectorIiE9push_backEv", "_Z": "_Z", "_Z99x": "_Z99x", "_ZN999999999999999999999aE": "_ZN999999999999999999999aE",
	} {
		if got := plainName(name); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
}

// A core's notes tell where the process was, and whose it is.
func TestNotes(t *testing.T) {
	files := []mapping{{0x1000, 0x2000, 0, "/a"}, {0x7f0000, 0x7f2000, 4096, "/lib/b.so"}}
	n, ok := notesOf(bytes.NewReader(coreFile(4711, 0x7f1234, files...)))
	if !ok || n.pid != 4711 || n.pc != 0x7f1234 || !slices.Equal(n.files, files) {
		t.Errorf("%v %+v", ok, n)
	}
	for cut := range 200 { // a core that the limit has cut
		notesOf(bytes.NewReader(coreFile(4711, 1, files...)[:cut]))
	}
	if _, ok := notesOf(bytes.NewReader([]byte("x"))); ok {
		t.Error("a text is a core")
	}
}

// hostile are files that a rank may leave where a program is looked for: as ELF they are right, as tables they are not.
func hostile() map[string][]byte {
	le := binary.LittleEndian
	unit := func(version uint16, head, program []byte) []byte {
		h := le.AppendUint16(nil, version)
		if version == 5 {
			h = append(h, 8, 0)
		}
		h = le.AppendUint32(h, uint32(len(head)))
		h = append(append(h, head...), program...)
		return append(le.AppendUint32(nil, uint32(len(h))), h...)
	}
	params := []byte{1, 1, 1, 0xfb, 14, 4, 0, 1, 1}
	many := append(slices.Clone(params), 0)                    // no directories' columns
	many = append(many, bytes.Repeat([]byte{0xff}, 9)...)      // and very many of them
	wide := append(slices.Clone(params), 255)                  // 255 columns
	wide = append(wide, bytes.Repeat([]byte{1, 0x1f}, 255)...) // each a text elsewhere
	wide = append(wide, 0xff, 0xff, 0xff, 0xff, 0x0f)          // of very many directories
	return map[string][]byte{
		"empty":                  nil,
		"units of nothing":       make([]byte, 1<<12),
		"a unit that never ends": le.AppendUint32(nil, 0xfffffff0),
		"64 bits, negative":      append(le.AppendUint32(nil, 0xffffffff), bytes.Repeat([]byte{0xff}, 8)...),
		"directories of nothing": unit(5, many, []byte{1, 1}),
		"texts again and again":  unit(5, wide, []byte{0, 9, 2, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0x7f, 1}),
		"no span":                unit(4, []byte{1, 1, 1, 0xfb, 0, 4, 0, 1, 1, 0, 0}, bytes.Repeat([]byte{20}, 1000)),
		"numbers without end":    unit(3, []byte{1, 1, 0xfb, 14, 4, 0, 1, 1, 0, 0}, bytes.Repeat([]byte{2, 0xff}, 1000)),
		"names of nothing":       unit(2, []byte{1, 1, 0xfb, 14, 4, 0, 1, 1}, []byte{0, 9, 2, 1, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0x7f, 1}),
		"an extended one of 0":   unit(4, append(slices.Clone(params), 0, 0), bytes.Repeat([]byte{0}, 1000)),
	}
}

// What a rank has left as a table of lines costs its length, once, and tells nothing.
func TestHostileLines(t *testing.T) {
	for name, table := range hostile() {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		if file, line := lineAt(ctx, bytes.NewReader(table), [2]io.ReadSeeker{bytes.NewReader(make([]byte, 100))}, 0x41); line > 0 && file == "" {
			t.Errorf("%s: %q:%d", name, file, line)
		}
		if ctx.Err() != nil {
			t.Errorf("%s takes a minute", name)
		}
		cancel()
	}
}

// Files that are no programs are not read: debug/elf would take as many sections, and as long names, as they say.
func TestModest(t *testing.T) {
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if !modest(bytes.NewReader(self)) {
		t.Error("a program is not taken for one")
	}
	for name, change := range map[string]func(b []byte){
		"sections without number": func(b []byte) { binary.LittleEndian.PutUint16(b[60:], 0) },
		"very many sections":      func(b []byte) { binary.LittleEndian.PutUint16(b[60:], 0xffff) },
		"very many segments":      func(b []byte) { binary.LittleEndian.PutUint16(b[56:], 0xffff) },
		"of 32 bits":              func(b []byte) { b[4] = 1 },
		"names elsewhere":         func(b []byte) { binary.LittleEndian.PutUint64(b[40:], 1<<60) },
	} {
		b := slices.Clone(self)
		if change(b); modest(bytes.NewReader(b)) {
			t.Errorf("%s: taken", name)
		}
	}
	dir := t.TempDir()
	if m, err := openImage(nil, dir); err == nil {
		m.close()
		t.Error("a directory is a program")
	}
	if err := exec.Command("mkfifo", filepath.Join(dir, "pipe")).Run(); err != nil {
		t.Fatal(err)
	}
	if m, err := openImage(nil, filepath.Join(dir, "pipe")); err == nil { // and it has not waited for a writer
		m.close()
		t.Error("a pipe is a program")
	}
}

// FuzzCrash reads a rank's files: as a program, as a core, as a table of lines. Memory is bounded by a few buffers, whatever they say.
func FuzzCrash(f *testing.F) {
	for _, table := range hostile() {
		f.Add(table, uint64(0x41))
	}
	f.Add(coreFile(4711, 0x1234, mapping{0x1000, 0x2000, 0, "/a"}), uint64(0x1234))
	f.Fuzz(func(t *testing.T, b []byte, at uint64) {
		defer cost.Watch(t, cost.Bound{Fixed: 4 << 20, PerByte: 1 << 10}, len(b))()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		texts := [2]io.ReadSeeker{bytes.NewReader(b), bytes.NewReader(b)}
		if file, line := lineAt(ctx, bytes.NewReader(b), texts, at); line < 0 || len(file) > maxSymbol || ctx.Err() != nil {
			t.Errorf("%q:%d, %v", file, line, ctx.Err())
		}
		n, _ := notesOf(bytes.NewReader(b))
		if len(n.files) > len(b)/24 {
			t.Errorf("%d files in %d bytes", len(n.files), len(b))
		}
		name := filepath.Join(t.TempDir(), "a.out")
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if m, err := openImage(nil, name); err == nil {
			defer m.close()
			if place, _ := m.place(ctx, at); len(place) > 2*maxSymbol {
				t.Errorf("a place of %d bytes", len(place))
			}
		}
		Resolve(ctx, fmt.Sprintf("%s(+0x%x)[0x%x] %s(f+0x1)[0x1]", name, at, at, name), nil)
	})
}
