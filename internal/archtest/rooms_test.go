package archtest

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Bounds of a room, and of a type in it. What passes one stands in a list below with what it has, and that number may only fall: who brings it
// down lowers the number, and who brings it below the bound takes the line away.
const (
	maxRoom    = 2500 // lines of product code of a package, generated ones not counted
	maxRooms   = 100  // packages with product code
	maxWiring  = 5000 // of cmd/mpiup, which joins all: a command's work stands in a package of its own
	minRoom    = 150  // lines of a package that one other imports, unless it is a parser with a fuzz target
	maxSurface = 40   // methods of a type, and functions of its package that take it
	maxFields  = 20
	maxBools   = 2 // of a struct with a state: more are states that its table does not know
)

// pile is what passes a bound: its count by name.
type pile map[string]int

// hold compares what there is with what is excused.
func hold(there, excused pile, most int, what string) (bad []string) {
	for name, n := range there {
		switch old, known := excused[name]; {
		case n <= most:
		case !known:
			bad = append(bad, fmt.Sprintf("%s has %d %s, more than %d: which two ideas are in it?", name, n, what, most))
		case n > old:
			bad = append(bad, fmt.Sprintf("%s has %d %s; the list of exceptions has %d, and numbers there only fall", name, n, what, old))
		case n < old:
			bad = append(bad, fmt.Sprintf("%s has %d %s: lower the %d in the list of exceptions", name, n, what, old))
		}
	}
	for name := range excused {
		if there[name] <= most {
			bad = append(bad, fmt.Sprintf("%s has %d %s: take it off the list of exceptions", name, there[name], what))
		}
	}
	slices.Sort(bad)
	return bad
}

func TestExceptionsOnlyShrink(t *testing.T) {
	got := hold(pile{"fine": 3, "new": 6, "grown": 8, "shrunk": 6, "mended": 2}, pile{"grown": 7, "shrunk": 7, "mended": 9, "gone": 8}, 5, "lines")
	want := []string{
		"gone has 0 lines: take it off the list of exceptions", "grown has 8 lines; the list of exceptions has 7, and numbers there only fall",
		"mended has 2 lines: take it off the list of exceptions", "new has 6 lines, more than 5: which two ideas are in it?",
		"shrunk has 6 lines: lower the 7 in the list of exceptions",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// linesOf are the lines of product code of each package.
func linesOf(t *testing.T) pile {
	t.Helper()
	lines := pile{}
	eachFile(t, func(path string, text []byte) {
		if !generated.Match(text) && !under(path, "test") {
			lines[filepath.Dir(path)] += bytes.Count(text, []byte("\n"))
		}
	})
	return lines
}

func TestRoomsAreSmall(t *testing.T) {
	lines := linesOf(t)
	report(t, hold(pile{"the product": len(lines)}, nil, maxRooms, "packages"))
	for name, n := range lines {
		if n > maxRoom { // numbers of the list are to a hundred lines
			lines[name] = (n + 99) / 100 * 100
		}
	}
	wiring := pile{"cmd/mpiup": lines["cmd/mpiup"]}
	delete(lines, "cmd/mpiup")
	report(t, hold(wiring, largeWiring, maxWiring, "lines"))
	report(t, hold(lines, largeRooms, maxRoom, "lines"))
}

// A package of a few lines that one other imports is a file of that other, given a folder. A parser with a fuzz target may be small: hostile
// input meets nothing else there.
func TestRoomsAreNoCupboards(t *testing.T) {
	users := map[string]map[string]bool{}
	fuzzed := map[string]bool{}
	for _, p := range packages(t) {
		for _, name := range slices.Concat(p.TestGoFiles, p.XTestGoFiles) {
			text, err := os.ReadFile(filepath.Join("..", "..", p.Path(), name))
			if err != nil {
				t.Fatal(err)
			}
			fuzzed[p.Path()] = fuzzed[p.Path()] || bytes.Contains(text, []byte("\nfunc Fuzz"))
		}
		if under(p.Path(), "test") {
			continue
		}
		for _, imp := range p.Imports {
			if path, ours := strings.CutPrefix(imp, module+"/"); ours {
				if users[path] == nil {
					users[path] = map[string]bool{}
				}
				users[path][p.Path()] = true
			}
		}
	}
	var bad []string
	small := map[string]bool{}
	for path, n := range linesOf(t) {
		if !cupboard(n, len(users[path]), fuzzed[path]) {
			continue
		}
		small[path] = true
		if !slices.Contains(cupboards, path) {
			for user := range users[path] {
				bad = append(bad, fmt.Sprintf("%s has %d lines and one user: they belong into %s", path, n, user))
			}
		}
	}
	for _, path := range cupboards {
		if !small[path] {
			bad = append(bad, path+" is no cupboard any more: take it off the list")
		}
	}
	slices.Sort(bad)
	report(t, bad)
}

func cupboard(lines, users int, fuzzed bool) bool { return lines < minRoom && users == 1 && !fuzzed }

// shape is what is counted of a type.
type shape struct {
	surface, fields, bools int
	state                  bool // it has a field of that name
}

// shapes are those of a package's types, by name, from the texts of its files.
func shapes(t *testing.T, files map[string][]byte) map[string]*shape {
	t.Helper()
	types := map[string]*shape{}
	var funcs []*ast.FuncDecl
	for path, text := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				funcs = append(funcs, d)
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok {
						types[s.Name.Name] = shapeOf(s)
					}
				}
			}
		}
	}
	for _, f := range funcs {
		takes := map[string]bool{}
		for _, list := range []*ast.FieldList{f.Recv, f.Type.Params} {
			if list == nil {
				continue
			}
			for _, field := range list.List {
				takes[typeName(field.Type)] = true
			}
		}
		for name := range takes {
			if s := types[name]; s != nil {
				s.surface++
			}
		}
	}
	return types
}

func shapeOf(s *ast.TypeSpec) *shape {
	sh := &shape{}
	of, ok := s.Type.(*ast.StructType)
	if !ok {
		return sh
	}
	for _, field := range of.Fields.List {
		n := max(len(field.Names), 1)
		sh.fields += n
		if typeName(field.Type) == "bool" {
			sh.bools += n
		}
		for _, name := range field.Names {
			sh.state = sh.state || name.Name == "state"
		}
	}
	return sh
}

// typeName is the name of a type, or of what it points to; "" for those of other packages, and for lists.
func typeName(of ast.Expr) string {
	if star, ok := of.(*ast.StarExpr); ok {
		of = star.X
	}
	if index, ok := of.(*ast.IndexExpr); ok {
		of = index.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

// A type that many functions may change is not understood by reading it, whether they stand behind a dot or take it. Plain records of what
// somebody asked for (a Config, a Report) have the fields that there are things to ask for, and stand in the list with their number.
func TestTypesAreSmall(t *testing.T) {
	files := map[string]map[string][]byte{}
	eachFile(t, func(path string, text []byte) {
		if generated.Match(text) || under(path, "test") {
			return
		}
		if files[filepath.Dir(path)] == nil {
			files[filepath.Dir(path)] = map[string][]byte{}
		}
		files[filepath.Dir(path)][path] = text
	})
	surface, fields, bools := pile{}, pile{}, pile{}
	for dir, of := range files {
		for name, s := range shapes(t, of) {
			name = dir + "." + name
			surface[name], fields[name] = s.surface, s.fields
			if s.state {
				bools[name] = s.bools
			}
		}
	}
	report(t, hold(surface, wideTypes, maxSurface, "methods and functions that take it"))
	report(t, hold(fields, fullTypes, maxFields, "fields"))
	report(t, hold(bools, flaggedTypes, maxBools, "bools beside its state"))
}

func TestShapesAreSeen(t *testing.T) {
	src := "package x\ntype A struct { state int; a, b bool; c string }\nfunc (a A) f(*A) {}\nfunc (a *A) g() {}\nfunc h(n int, a *A) {}\nfunc i([]A) {}\ntype B[T any] struct { B }\nfunc (b *B[T]) j() {}\n"
	got := shapes(t, map[string][]byte{"x.go": []byte(src)})
	if a, b := *got["A"], *got["B"]; a != (shape{3, 4, 2, true}) || b != (shape{surface: 1, fields: 1}) {
		t.Errorf("%+v %+v", a, b)
	}
}

// reaching is what a PURE package has not even behind what it imports.
var reaching = []string{"net", "net/http", "crypto/tls", "google.golang.org/grpc", "golang.org/x/sys/unix"}

// A package that says PURE is linked into a test, or into another program, without a network.
func TestPurityIsDeep(t *testing.T) {
	says := map[string]bool{}
	eachFile(t, func(path string, text []byte) {
		if _, found, ok := bytes.Cut(text, []byte("\npackage ")); ok && len(found) > 0 && regexp.MustCompile(`(?m)^//.*\bPURE\b`).Match(text[:bytes.Index(text, []byte("\npackage "))]) {
			says[filepath.Dir(path)] = true
		}
	})
	there := pile{}
	for _, p := range packages(t) {
		if !says[p.Path()] {
			continue
		}
		there[p.Path()] = beyond(p.Deps)
	}
	report(t, hold(there, shallow, 0, "of "+strings.Join(reaching, ", ")+" behind its imports"))
}

// beyond is how many of what reaches out are among a package's imports, and theirs.
func beyond(deps []string) (n int) {
	for _, dep := range deps {
		if slices.Contains(reaching, dep) {
			n++
		}
	}
	return n
}

func TestRoomsAreSeen(t *testing.T) {
	if !cupboard(149, 1, false) || cupboard(150, 1, false) || cupboard(149, 2, false) || cupboard(149, 1, true) || cupboard(149, 0, false) {
		t.Error("a cupboard is not seen, or a room is taken for one")
	}
	if n := beyond([]string{"fmt", "net", "net/netip", "crypto/tls"}); n != 2 {
		t.Errorf("%d reach out", n)
	}
}

// The loop's queue takes what a script can play, and no function.
func TestTheMailboxHoldsEvents(t *testing.T) {
	field := regexp.MustCompile(`items +\[\]run\.Event\b`)
	text, err := os.ReadFile(filepath.Join("..", "..", "launcher", "driver.go"))
	if err != nil {
		t.Fatal(err)
	}
	if !field.Match(text) || field.MatchString("	items []any") {
		t.Error("launcher.mailbox has items of another type than run.Event: what came could not be played again")
	}
}
