package archtest

import (
	"fmt"
	"strings"
	"testing"
)

const module = "github.com/mpiup/mpiup"

// levels is the level of every package, by the longest prefix that matches. A new package gets
// its line here, and docs/architecture.md with it.
var levels = map[string]int{
	"cmd/mpiup":         10,
	"cmd/mpiup-nvml":    10,
	"cmd/mpiup-otel":    10,
	"cmd/mpiup/draw":    3,
	"cmd/mpiup/install": 5,

	"launcher": 8,
	"agent":    8,

	"launcher/spawn":           3,
	"launcher/examine":         9,
	"launcher/peers":           9,
	"launcher/run":             5,
	"launcher/run/model":       1,
	"launcher/run/phases":      3,
	"launcher/link":            3,
	"launcher/reach":           4,
	"launcher/hosts":           2,
	"launcher/rendezvous":      2,
	"launcher/placement":       2,
	"launcher/cli":             6,
	"launcher/cli/training":    2,
	"launcher/cli/ssh":         2,
	"launcher/survey":          3,
	"launcher/kubectl":         2,
	"launcher/cli/mpirun":      2,
	"launcher/cli/mpirun/line": 1,
	"launcher/streams":         1,
	"launcher/iof":             2,
	"agent/port":               2,
	"agent/metrics":            4,
	"agent/host":               3,
	"agent/ways":               5,
	"agent/outfit":             4,
	"agent/watch":              4,
	"launcher/slow":            2,
	"launcher/witness":         1,
	"launcher/progress":        1,
	"agent/ranks":              5,
	"agent/exchange":           6,
	"agent/session":            7,
	"agent/reap":               2,
	"agent/reap/guard":         2,
	"agent/reap/proctree":      1,
	"agent/reap/program":       1,
	"agent/stdio":              2,
	"agent/member":             2,
	"agent/policy":             2,
	"pmi":                      2,
	"pmi/pmix":                 2,
	"pmi/pmix/modex":           2,
	"pmi/pmix/event":           1,
	"agent/mpilib":             2,
	"agent/mpilib/script":      1,
	"agent/mpilib/eval":        1,
	"agent/checkup":            3,
	"agent/checkup/image":      4,
	"agent/incoming":           2,
	"agent/gloo":               2,
	"agent/look":               3,
	"agent/trace":              2,
	"launcher/hang":            3,
	"launcher/mixture":         2,
	"agent/handover":           3,
	"internal/wire":            2,

	"launcher/verdict":      2,
	"launcher/verdict/logs": 3,
	"launcher/exchange":     2,
	"launcher/report":       3,
	"launcher/hours":        1,
	"launcher/aftermath":    7,
	"launcher/runmetrics":   4,

	"pmi/kvs":            1,
	"pmi/client":         0,
	"pmi/loopback":       1,
	"pmi/pmix/jobdata":   1,
	"pmi/pmix/bfrops":    0,
	"pmi/pmix/leftover":  0,
	"topology":           0,
	"gpu":                1,
	"rdma":               1,
	"topology/discover":  1,
	"internal/resolve":   1,
	"internal/api/codec": 2,
	"launcher/doctor":    1,

	"topology/sysfs":            0,
	"internal/job":              0,
	"internal/hostlist":         0,
	"internal/frameworks":       0,
	"internal/identity":         0,
	"internal/identity/keyfile": 0,
	"internal/api/rpc":          2,
	"internal/api":              1,
	"internal/archtest":         0,
	"docs":                      -1,

	"internal/layout":   -1,
	"internal/idset":    -2,
	"internal/visible":  -3,
	"internal/pattern":  -2,
	"internal/secret":   -1,
	"internal/podfiles": -2,
	"internal/typed":    -1,
	"internal/bounded":  -2,
	"internal/nearby":   -1,
	"internal/outfile":  -1,
	"internal/svg":      -1,
	"internal/scrape":   -1,
	"internal/awake":    -2,
	"internal/early":    -2,
	"internal/socket":   -1,
}

// levelOf finds a package's level. Only internal/api has packages below it
// that share its line; every other package is named in full.
func levelOf(path string) (int, bool) {
	if level, ok := levels[path]; ok {
		return level, true
	}
	if tree := "internal/api"; under(path, tree) {
		return levels[tree], true
	}
	return 0, false
}

// checkLevels finds imports that do not go downwards.
func checkLevels(pkgs []Package) (bad []string) {
	for _, p := range pkgs {
		from := p.Path()
		if from == "test" || under(from, "test") {
			continue
		}
		level, ok := levelOf(from)
		if !ok {
			bad = append(bad, fmt.Sprintf("%s has no level; add it to internal/archtest/levels_test.go", from))
			continue
		}
		for _, imp := range p.Imports {
			to, ours := strings.CutPrefix(imp, module+"/")
			if !ours {
				continue
			}
			target, ok := levelOf(to)
			switch {
			case under(to, "test"):
				bad = append(bad, fmt.Sprintf("%s imports %s: what only tests need stays out of the product", from, to))
			case strings.HasPrefix(to, from+"/") && target <= level, !ok:
				// its own sub-package; or unknown, which is said where it is defined
			case target >= level:
				bad = append(bad, fmt.Sprintf("%s (level %d) imports %s (level %d): imports go downwards only", from, level, to, target))
			}
		}
	}
	return bad
}

func TestImportsGoDownwards(t *testing.T) {
	report(t, checkLevels(packages(t)))
}

func TestLevelsAreSeen(t *testing.T) {
	for _, tt := range []struct {
		from, to string
		want     string // part of the complaint; "": none
	}{
		{"launcher", "launcher/iof", ""},
		{"launcher", "internal/api/v1", ""},
		{"cmd/mpiup", "agent", ""},
		{"pmi", "pmi/kvs", ""},
		{"pmi/pmix", "pmi/pmix/bfrops", ""},
		{"launcher", "agent", "imports go downwards only"},
		{"agent/reap", "agent/stdio", "imports go downwards only"},
		{"internal/job", "internal/hostlist", "imports go downwards only"},
		{"topology", "internal/idset", ""},
		{"gpu", "rdma", "imports go downwards only"},
		{"pmi/kvs", "pmi", "imports go downwards only"},
		{"agent", "test/need", "what only tests need"},
		{"internal/surprise", "internal/job", "has no level"},
		{"test/netns", "agent", ""},
	} {
		bad := checkLevels([]Package{{ImportPath: module + "/" + tt.from, Imports: []string{module + "/" + tt.to}}})
		if got := strings.Join(bad, "; "); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s imports %s: %q, want %q", tt.from, tt.to, got, tt.want)
		}
	}
}
