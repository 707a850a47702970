package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// bounds are functions that end a wait by the wall's clock, and fields of servers that do.
var (
	bounds = map[string]bool{"context.WithTimeout": true, "context.WithTimeoutCause": true, "context.WithDeadline": true, "context.WithDeadlineCause": true,
		"time.After": true, "time.AfterFunc": true, "time.NewTimer": true}
	bounding = map[string]bool{"ReadTimeout": true, "WriteTimeout": true, "ReadHeaderTimeout": true, "IdleTimeout": true, "Timeout": true}
)

// wallWaits counts what ends a wait by the wall's clock in a file: those calls, deadlines of connections that lie ahead, time.Since against a
// bound, and timeouts of servers and dialers of the standard library.
func wallWaits(t *testing.T, path string, text []byte) (n int) {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	name := func(e ast.Expr) string {
		if s, ok := e.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok {
				return x.Name + "." + s.Sel.Name
			}
			return "." + s.Sel.Name
		}
		return ""
	}
	since := func(e ast.Expr) bool {
		c, ok := e.(*ast.CallExpr)
		return ok && name(c.Fun) == "time.Since"
	}
	ast.Inspect(f, func(node ast.Node) bool {
		switch x := node.(type) {
		case *ast.CallExpr:
			ahead := false
			for _, arg := range x.Args {
				c, ok := arg.(*ast.CallExpr)
				ahead = ahead || ok && strings.HasSuffix(name(c.Fun), ".Add")
			}
			called := name(x.Fun)
			if bounds[called] || ahead && strings.HasSuffix(called, "Deadline") {
				n++
			}
		case *ast.BinaryExpr:
			if (x.Op == token.GTR || x.Op == token.GEQ || x.Op == token.LSS || x.Op == token.LEQ) && (since(x.X) || since(x.Y)) {
				n++
			}
		case *ast.CompositeLit:
			if kind := name(x.Type); kind == "http.Server" || kind == "http.Client" || kind == "net.Dialer" {
				for _, e := range x.Elts {
					if kv, ok := e.(*ast.KeyValueExpr); ok {
						if key, ok := kv.Key.(*ast.Ident); ok && bounding[key.Name] {
							n++
						}
					}
				}
			}
		}
		return true
	})
	return n
}

// A wait whose end counts as somebody else's silence counts only the time in which this process itself ran (internal/awake): one that was
// stopped, starved or frozen with its machine has kept others waiting, and not they it. The wall's clock is for pauses of our own, for what
// the user has set, for the age of what we know, and for a courtesy at the end; each such package stands in the list with its reasons.
func TestSilenceIsCountedAwake(t *testing.T) {
	for text, want := range map[string]int{
		`ctx, c := context.WithTimeout(ctx, d)`: 1, `<-time.After(d)`: 1, `conn.SetReadDeadline(time.Now().Add(d))`: 1, `c.SetDeadline(begun.Add(d))`: 1,
		`c.SetDeadline(time.Unix(1, 0))`: 0, `if time.Since(t) > d { f() }`: 1, `f(time.Since(t))`: 0, `s := &http.Server{ReadTimeout: d, Handler: h}`: 1,
		`ctx, c := awake.Within(ctx, d)`: 0,
	} {
		if got := wallWaits(t, "x.go", []byte("package x\nfunc f() { "+text+" }\n")); got != want {
			t.Errorf("%d waits seen in %s", got, text)
		}
	}
	found := map[string]int{}
	eachFile(t, func(path string, text []byte) {
		if !under(path, "test") && filepath.Dir(path) != "internal/awake" {
			found[filepath.Dir(path)] += wallWaits(t, path, text)
		}
	})
	report(t, compareWaits(found, onTheWall))
}

// compareWaits finds waits by the wall's clock that the list does not have, and entries of the list that are gone. A number there is not
// a bound: whoever adds a wait writes it there with the reason.
func compareWaits(found, listed map[string]int) (bad []string) {
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if found[path] != listed[path] {
			bad = append(bad, fmt.Sprintf("%s has %d waits by the wall's clock, which counts while this process is stopped, and onTheWall has %d: "+
				"use internal/awake, or write the pause with its reason there", path, found[path], listed[path]))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(listed)) {
		if _, ok := found[path]; !ok {
			bad = append(bad, path+" is gone: take it off onTheWall")
		}
	}
	return bad
}

func TestWaitsAreCompared(t *testing.T) {
	got := compareWaits(map[string]int{"fine": 2, "more": 2, "new": 1}, map[string]int{"fine": 2, "more": 1, "gone": 1})
	if len(got) != 3 || !strings.HasPrefix(got[0], "more has 2") || !strings.HasPrefix(got[1], "new has 1") || !strings.HasPrefix(got[2], "gone is gone") {
		t.Errorf("%q", got)
	}
}
