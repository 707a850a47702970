package archtest

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// rule allows an import, or what lies below it, only in some packages.
type rule struct {
	imports []string // import paths and the trees below them
	only    []string // packages of the module that may; with "/..." the tree below too
	why     string
}

// only: directly imported by these packages and no others.
var only = []rule{
	{[]string{"os/exec"}, []string{"agent/reap"},
		"only agent/reap makes processes: one table of children, one thread that forks, one reaper"},
	{[]string{"github.com/hashicorp/memberlist"}, []string{"agent/member", "agent/member"},
		"gossip is behind agent/member's own type, so that it can be replaced and faked"},
	{[]string{module + "/internal/api/rpc"}, []string{"agent", "launcher/reach"},
		"it is the service; who reads frames links no gRPC (internal/api/v1)"},
	{[]string{"google.golang.org/grpc"}, []string{"agent", "launcher/reach", "internal/api/...", "internal/identity"},
		"grpc ends at the two ends of a connection; everything else sees frames"},
	{[]string{"github.com/prometheus"}, []string{"agent/metrics", "launcher/runmetrics", "internal/scrape"},
		"what is shown stands on two pages, each with a registry of its own; the rest counts and knows no Prometheus"},
	{[]string{"github.com/spf13"}, []string{"cmd/mpiup", "launcher/cli"},
		"the command line is parsed in one place; the rest is handed values"},
	{[]string{"C", "github.com/NVIDIA/go-nvml"}, []string{"cmd/mpiup-nvml"},
		"bin/mpiup is static and runs in any image: no cgo"},
	{[]string{"github.com/miekg/dns", "github.com/google/go-cmp", "go.uber.org/goleak", "testing"}, nil,
		"these are for tests only"},
	{[]string{"golang.org/x/tools"}, []string{"topology/discover"},
		"txtar is the form of a captured machine; the rest is for tests"},
	{[]string{module + "/internal/api/v1"}, []string{"internal/...", "agent", "agent/session", "agent/exchange", "agent/handover", "agent/ranks", "agent/outfit", "agent/ways", "agent/watch",
		"launcher", "launcher/run", "launcher/reach", "launcher/link", "launcher/exchange", "launcher/hang", "launcher/survey", "launcher/peers", "cmd/mpiup"},
		"it is the wire, not the domain's model: it ends at the borders (docs/architecture.md), and the rest is handed values, so that a change of the protocol has one place"},
	{[]string{"plugin", "unsafe"}, []string{"internal/api/...", "agent/reap"},
		"x/sys has the system calls; only agent/reap needs one it lacks, and the generated code its own"},
}

// rule that a package and everything of the module it imports stay away from something.
type barrier struct {
	packages []string // with "/..." the tree below too
	imports  []string
	depth    func(Package) []string // imports that count
	but      []string               // those of imports that it may have
	why      string
}

func direct(p Package) []string     { return p.Imports }
func transitive(p Package) []string { return p.Deps }

var barriers = []barrier{
	{[]string{"internal/job"}, []string{"os", "net", "syscall", "sync", "context", "google.golang.org/grpc"}, direct, []string{"net/netip"},
		"it is words that all share: times and addresses are values, and nothing is done"},
	{[]string{"launcher/placement", "pmi/kvs", "internal/idset"},
		[]string{"os", "net", "time", "syscall", "math/rand", "crypto/rand", "golang.org/x/sys", "io/ioutil", "log"}, direct, nil,
		"it is pure: what is put in decides what comes out, so tables test all of it"},
	{[]string{"launcher/verdict"}, []string{"os", "net", "syscall", "math/rand", "crypto/rand", "golang.org/x/sys", "io/ioutil", "log"}, direct, nil,
		"it is pure: what is put in decides what comes out, times as values too"},
	{[]string{"pmi/..."},
		[]string{module + "/internal/api", module + "/agent", module + "/launcher", "google.golang.org/grpc"}, transitive, nil,
		"PMI servers know the engine only, so that another host process can use them"},
	{[]string{"launcher/..."}, []string{module + "/pmi"}, transitive, []string{module + "/pmi/kvs"},
		"what a launcher says of fences and names is the engine's; the formats are between agents and ranks"},
	{[]string{"agent/..."}, []string{module + "/launcher"}, transitive, nil,
		"agent and launcher meet in internal/api, never in code"},
	{[]string{"launcher/..."}, []string{module + "/agent"}, transitive, nil,
		"agent and launcher meet in internal/api, never in code"},
	{[]string{"topology/...", "gpu"},
		[]string{module + "/internal/api", module + "/agent", module + "/launcher", "google.golang.org/grpc", "net"}, direct, nil,
		"a machine is read from its files, and a test gives them as text"},
	{[]string{"rdma"}, // net/netip is for addresses in files
		[]string{module + "/internal/api", module + "/agent", module + "/launcher", "google.golang.org/grpc", "net/http", "os", "syscall"}, direct, nil,
		"a machine is read from its files, and a test gives them as text"},
}

func checkOnly(pkgs []Package, rules []rule) (bad []string) {
	for _, p := range pkgs {
		if under(p.Path(), "test") {
			continue
		}
		for _, r := range rules {
			for _, imp := range p.Imports {
				if matches(imp, r.imports) && !slices.ContainsFunc(r.only, func(o string) bool { return named(p.Path(), o) }) {
					bad = append(bad, fmt.Sprintf("%s imports %s, allowed in %s: %s", p.Path(), imp, orNone(r.only), r.why))
				}
			}
		}
	}
	return bad
}

func checkBarriers(pkgs []Package, rules []barrier) (bad []string) {
	for _, p := range pkgs {
		for _, b := range rules {
			if !slices.ContainsFunc(b.packages, func(n string) bool { return named(p.Path(), n) }) {
				continue
			}
			for _, imp := range b.depth(p) {
				if matches(imp, b.imports) && !matches(imp, b.but) {
					bad = append(bad, fmt.Sprintf("%s depends on %s: %s", p.Path(), imp, b.why))
				}
			}
		}
	}
	return bad
}

// matches reports whether imp is one of paths or below one.
func matches(imp string, paths []string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return imp == p || under(imp, p) })
}

// named reports whether path is name, or below it where name ends in "/...".
func named(path, name string) bool {
	tree, all := strings.CutSuffix(name, "/...")
	return path == tree || all && under(path, tree)
}

func orNone(names []string) string {
	if len(names) == 0 {
		return "tests only"
	}
	return strings.Join(names, ", ")
}

func TestDependenciesStayWhereTheyBelong(t *testing.T) {
	report(t, checkOnly(packages(t), only))
}

func TestBarriers(t *testing.T) {
	report(t, checkBarriers(packages(t), barriers))
}

func TestRulesAreSeen(t *testing.T) {
	ours := func(path string, imports ...string) []Package {
		return []Package{{ImportPath: module + "/" + path, Imports: imports, Deps: imports}}
	}
	for _, tt := range []struct {
		pkgs []Package
		bad  int
	}{
		{ours("agent/reap", "os/exec"), 0},
		{ours("agent", "os/exec"), 1},
		{ours("agent/reap/guard", "os/exec"), 1},
		{ours("test/netns", "os/exec", "github.com/miekg/dns"), 0},
		{ours("internal/api/v1", "google.golang.org/grpc/codes"), 0},
		{ours("agent/stdio", "google.golang.org/grpc/codes"), 1},
		{ours("internal/resolve", "github.com/miekg/dns"), 1},
		{ours("launcher/placement", "fmt", "strings"), 0},
		{ours("launcher/placement", "net/netip"), 1},
		{ours("pmi", "google.golang.org/grpc"), 2},
		{ours("agent/stdio", module+"/launcher/iof"), 1},
		{ours("launcher/exchange", module+"/pmi/kvs"), 0},
		{ours("launcher", module+"/pmi/pmix"), 1},
		{ours("launcher/run", module+"/internal/api/v1"), 0},
		{ours("launcher/doctor", module+"/internal/api/v1"), 1},
		{ours("agent/reap", module+"/internal/api/machine"), 0},
	} {
		if bad := append(checkOnly(tt.pkgs, only), checkBarriers(tt.pkgs, barriers)...); len(bad) != tt.bad {
			t.Errorf("%+v: %q, want %d", tt.pkgs, bad, tt.bad)
		}
	}
}
