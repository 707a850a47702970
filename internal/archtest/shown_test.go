package archtest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"strings"
	"testing"
)

// rawWrites are the functions that write text of others as it is, or make it visible in another way than by internal/visible's own functions,
// each with its reason.
var rawWrites = map[string]string{
	"agent/look.AskRAS":          "to NCCL's own service, what its protocol has",
	"cmd/mpiup.asHorovodrun":     "a page of this binary's",
	"cmd/mpiup.asTorchrun":       "a page of this binary's",
	"cmd/mpiup.show":             "a page of this binary's",
	"cmd/mpiup.helpOfKubectl":    "a page of this binary's",
	"cmd/mpiup.mpirun":           "a page of this binary's",
	"cmd/mpiup/draw.distances":   "numbers",
	"cmd/mpiup/draw.head":        "its texts are made visible one by one (clean)",
	"cmd/mpiup/draw.linkTable":   "its texts are made visible one by one (clean)",
	"cmd/mpiup/draw.print":       "its texts are made visible one by one (clean)",
	"cmd/mpiup/draw.remarks":     "its texts are made visible one by one (clean)",
	"launcher.do":                "lines in another launcher's words, of names that launcher/run has made visible",
	"launcher.event":             "JSON of visible.JSONLine",
	"launcher/aftermath.NewPage": "HTML: JSON that ends no element, a title that is escaped, and files of this binary",
	"launcher/aftermath.flush":   "base64",
	"launcher/aftermath.Close":   "a number",
	"launcher/peers.put":         "visible lines, behind what clears the terminal for the next look",
	"launcher/reach.draw":        "the line of what is waited for, whose rows are made visible, behind what moves the cursor",
	"launcher/reach.show":        "what moves the cursor",
}

// Text of others does not get to a stream but through internal/visible: by its Fprint and its kin, whose arguments show on one line, or as what its
// functions return. What ranks write to their standard streams is launcher/iof's, and passes by.
func TestTextIsShownByVisible(t *testing.T) {
	seen := map[string]bool{}
	eachFile(t, func(path string, text []byte) {
		path = strings.TrimPrefix(path, "../../")
		if strings.HasPrefix(path, "test/") || strings.HasPrefix(path, "internal/visible/") || strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, ".pb.go") {
			return
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		consts := constants(file)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			own := buffers(f)
			ast.Inspect(f.Body, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !writes(call, own) || slices.IndexFunc(call.Args[first(call):], func(a ast.Expr) bool { return !plain(a, consts) }) < 0 {
					return true
				}
				where := path[:strings.LastIndex(path, "/")] + "." + f.Name.Name
				if seen[where] = true; rawWrites[where] == "" {
					t.Errorf("%s: %s writes text by fmt or io: use visible.Fprintf and its kin, or name a reason in rawWrites under %q", files.Position(call.Pos()), f.Name.Name, where)
				}
				return true
			})
		}
	})
	for where := range rawWrites {
		if !seen[where] {
			t.Errorf("%s writes no raw text any more", where)
		}
	}
}

// writes says that a call writes text to what is no buffer of the function's own.
func writes(call *ast.CallExpr, own map[string]bool) bool {
	name := types.ExprString(call.Fun)
	if !strings.HasPrefix(name, "fmt.Fprint") && name != "io.WriteString" || len(call.Args) == 0 {
		return false
	}
	to := types.ExprString(call.Args[0])
	return !strings.HasPrefix(to, "&") && !own[to]
}

// first is the first argument that may be text of others.
func first(call *ast.CallExpr) int {
	if types.ExprString(call.Fun) == "fmt.Fprintf" {
		return 2
	}
	return 1
}

// words are functions of internal/visible that put a text of others into a sentence as it is.
var words = []string{"visible.Colon", "visible.Few", "visible.Short"}

// plain says that an argument is no text of others: a constant, a number that is made here, or what internal/visible has made.
func plain(a ast.Expr, consts map[string]bool) bool {
	switch a := a.(type) {
	case *ast.BasicLit:
		return true
	case *ast.Ident:
		return consts[a.Name]
	case *ast.BinaryExpr:
		return plain(a.X, consts) && plain(a.Y, consts)
	case *ast.CallExpr:
		name := types.ExprString(a.Fun)
		return strings.HasPrefix(name, "visible.") && !slices.Contains(words, name) || name == "len"
	}
	return false
}

// buffers are a function's own places for text: builders, buffers, hashes, tables that are written to one of them.
func buffers(f *ast.FuncDecl) map[string]bool {
	own := map[string]bool{}
	is := func(of string) bool {
		return slices.ContainsFunc([]string{"strings.Builder", "bytes.Buffer", "hash.Hash"}, func(b string) bool { return strings.TrimPrefix(of, "*") == b })
	}
	for _, p := range f.Type.Params.List {
		if is(types.ExprString(p.Type)) || types.ExprString(p.Type) == "*tabwriter.Writer" {
			for _, n := range p.Names {
				own[n.Name] = true
			}
		}
	}
	ast.Inspect(f.Body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ValueSpec:
			if n.Type != nil && is(types.ExprString(n.Type)) {
				for _, name := range n.Names {
					own[name.Name] = true
				}
			}
		case *ast.AssignStmt:
			if len(n.Rhs) != 1 {
				break
			}
			if call, ok := n.Rhs[0].(*ast.CallExpr); ok {
				name := types.ExprString(call.Fun)
				table := name == "tabwriter.NewWriter" && len(call.Args) > 0 && (strings.HasPrefix(types.ExprString(call.Args[0]), "&") || own[types.ExprString(call.Args[0])])
				if table || strings.HasPrefix(name, "sha256.New") || strings.HasPrefix(name, "hmac.New") || name == "new" && is(types.ExprString(call.Args[0])) {
					own[types.ExprString(n.Lhs[0])] = true
				}
			}
		}
		return true
	})
	return own
}

// constants are a file's.
func constants(file *ast.File) map[string]bool {
	out := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.CONST {
			for _, s := range d.Specs {
				for _, name := range s.(*ast.ValueSpec).Names {
					out[name.Name] = true
				}
			}
		}
		return true
	})
	return out
}
