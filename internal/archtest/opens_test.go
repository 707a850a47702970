package archtest

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strings"
	"testing"
)

// blocking are functions that wait for ever at a pipe which somebody put in the place of a file or directory.
var blocking = []string{"os.Open", "os.ReadDir", "os.ReadFile", "os.OpenRoot", "os.DirFS", "filepath.Glob", "filepath.WalkDir", "fs.WalkDir"}

// mayBlock are files that use them, and why no stranger can have put a pipe there.
var mayBlock = map[string]string{
	"agent/look/asleep.go":             "/proc: the kernel's",
	"agent/look/usage.go":              "/proc: the kernel's",
	"agent/ranks/crash.go":             "/proc: the kernel's",
	"agent/reap/daemon.go":             "a device",
	"agent/reap/files.go":              "/proc: the kernel's",
	"agent/reap/prepare.go":            "/proc: the kernel's",
	"agent/reap/proctree/proc.go":      "/proc: the kernel's",
	"agent/reap/proctree/sockets.go":   "/proc: the kernel's",
	"agent/reap/priority.go":           "/proc: the kernel's",
	"agent/stdio/files.go":             "a device",
	"agent/watch/cause.go":             "/proc: the kernel's",
	"agent/watch/far.go":               "/sys: the kernel's",
	"agent/watch/page.go":              "/sys: the kernel's",
	"cmd/mpiup/entered.go":             "/proc: the kernel's",
	"cmd/mpiup/install/install.go":     "mpiup's own file, beside the program that runs",
	"cmd/mpiup/native.go":              "a file that the user named",
	"cmd/mpiup/typed.go":               "/proc: the kernel's",
	"internal/bounded/bounded.go":      "File, for what a user named: a shell's pipe is one",
	"internal/bounded/tree.go":         "OpenRoot, of a directory that is open",
	"internal/identity/find.go":        "where Kubernetes mounts a Secret",
	"internal/identity/incarnation.go": "/proc: the kernel's",
	"internal/identity/scope.go":       "/etc/volcano, which Kubernetes mounts",
	"launcher/aftermath/aftermath.go":  "a log that the user named: a shell's pipe is one",
	"launcher/aftermath/support.go":    "where Kubernetes mounts a Secret",
	"launcher/hosts/operators.go":      "/etc/volcano, which Kubernetes mounts",
	"topology/sysfs/dir.go":            "a directory that the user named",
	"topology/sysfs/host.go":           "/sys and /proc: the kernel's",
}

// Whatever a rank, an earlier rank or an image may have made is opened by internal/bounded, which no pipe blocks. Other files that are opened
// stand in the list with the reason why nobody can have put one there.
func TestNobodyWaitsAtAPipe(t *testing.T) {
	found := map[string][]string{}
	eachFile(t, func(path string, text []byte) {
		if calls := callsTo(t, path, text, blocking); len(calls) > 0 && !under(path, "test") {
			found[path] = calls
		}
	})
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if mayBlock[path] == "" {
			t.Errorf("%s: a pipe in the place of what it opens blocks it for ever: use internal/bounded (Open, OpenDir, OpenRoot, Names, Tree), or say in mayBlock why none can be there",
				strings.Join(found[path], ", "))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(mayBlock)) {
		if found[path] == nil {
			t.Errorf("%s opens nothing so any more: take it off mayBlock", path)
		}
	}
}

// callsTo lists where a file calls one of some functions of packages, or hands one on.
func callsTo(t *testing.T, path string, text []byte, functions []string) (found []string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Error(err)
		return nil
	}
	ast.Inspect(file, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if of, ok := selector.X.(*ast.Ident); ok && slices.Contains(functions, of.Name+"."+selector.Sel.Name) {
			found = append(found, fmt.Sprintf("%s calls %s.%s", files.Position(n.Pos()), of.Name, selector.Sel.Name))
		}
		return true
	})
	return found
}

func TestOpensAreSeen(t *testing.T) {
	const text = "package x\nfunc f() { os.Open(a); bounded.Open(a); os.OpenFile(a, 0, 0); g(os.ReadDir) }\n"
	got := callsTo(t, "x.go", []byte(text), blocking)
	if len(got) != 2 || !strings.HasSuffix(got[0], "calls os.Open") || !strings.HasSuffix(got[1], "calls os.ReadDir") {
		t.Errorf("%q", got)
	}
}

// running are functions that run a program which is found by its name, whoever has put it there, and as root where this process is root.
var running = []string{"reap.Collect", "reap.Lines"}

// mayRun are files that use them, and why nobody else's program is run so.
var mayRun = map[string]string{
	"agent/server.go":      "mpiup's own helper, which was found beside it",
	"cmd/mpiup/kubectl.go": "the user's own kubectl",
}

// Whoever runs a tool for or about a rank does so by reap.CollectTool, which takes root's own programs only and runs them as the rank's user.
func TestToolsAreRunAsTheRanksUser(t *testing.T) {
	found := map[string]bool{}
	eachFile(t, func(path string, text []byte) {
		calls := callsTo(t, path, text, running)
		if len(calls) == 0 || under(path, "test") {
			return
		}
		if found[path] = true; mayRun[path] == "" {
			t.Errorf("%s: use reap.CollectTool, or say in mayRun whose program it is", strings.Join(calls, ", "))
		}
	})
	for _, path := range slices.Sorted(maps.Keys(mayRun)) {
		if !found[path] {
			t.Errorf("%s runs nothing so any more: take it off mayRun", path)
		}
	}
}

// mayMake are files that make directories by os.MkdirAll and os.Mkdir, which follow links of whoever made them, and why none of a rank's is on the way.
var mayMake = map[string]string{
	"agent/watch/trail.go":         "below a session's directory, which is this user's alone",
	"agent/watch/job.go":           "below a session's directory, which is this user's alone",
	"agent/look/flight.go":         "below a session's directory, which is this user's alone",
	"agent/metrics/inspector.go":   "below a session's directory, which is this user's alone",
	"agent/ranks/files.go":         "below a session's directory, which is this user's alone",
	"agent/host/dirs.go":           "a session's directory, in one that is this user's alone",
	"cmd/mpiup/install/install.go": "a directory that the user named, of a container that starts",
	"internal/nearby/nearby.go":    "the directory of this user's runs: it is opened without following links, and judged, before it is used",
	"internal/outfile/dir.go":      "for users that are not root",
	"internal/outfile/reach.go":    "for users that are not root",
	"pmi/pmix/leftover/claim.go":   "os.Mkdir, which makes nothing behind a link at its end, in /dev/shm or a temporary directory",
}

// Root makes directories by outfile.MakeAll, which follows no link of another user.
func TestDirectoriesAreMadeByOne(t *testing.T) {
	found := map[string][]string{}
	eachFile(t, func(path string, text []byte) {
		if calls := callsTo(t, path, text, []string{"os.MkdirAll", "os.Mkdir"}); len(calls) > 0 && !under(path, "test") && !strings.HasSuffix(path, "_test.go") {
			found[strings.TrimPrefix(path, "../../")] = calls
		}
	})
	for _, path := range slices.Sorted(maps.Keys(found)) {
		if mayMake[path] == "" {
			t.Errorf("%s: root would follow a rank's link there: use outfile.MakeAll or outfile.Open, or say in mayMake why none is on the way", strings.Join(found[path], ", "))
		}
	}
	for _, path := range slices.Sorted(maps.Keys(mayMake)) {
		if found[path] == nil {
			t.Errorf("%s makes no directory so any more: take it off mayMake", path)
		}
	}
}
