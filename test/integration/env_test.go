package integration

import (
	"regexp"
	"testing"
)

// The environment of a rank is shown with its reasons, and nothing of the job is started.
func TestEnvExplains(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	show := func(args ...string) result {
		return l.mpiup(t, append([]string{"env", "--key", l.key, "--host", "w0:1,w1:1"}, args...)...)
	}
	r := show("--explain", "1", "-n", "2", "-x", "MINE=a  b", "--fabric", "tcp", "--", "sh", "-c", "echo started").ok(t)
	for _, row := range []string{
		`MPIUP_RANK=1 +mpiup +which rank`, `MINE=a  b +user `, `PATH=\S+ +container`, `UCX_TLS=\^ib +mpiup +--fabric tcp`,
		`HWLOC_XMLFILE=/proc/\d+/fd/\d+ +mpiup +the host's topology`,
	} {
		if !regexp.MustCompile(`(?m)^` + row).MatchString(r.stdout) {
			t.Errorf("no line %s in\n%s", row, r.stdout)
		}
	}
	if regexp.MustCompile(`(?m)^started|MPIUP_RANK=0|MPIUP_EXPLAIN`).MatchString(r.stdout) || r.stderr != "" {
		t.Errorf("too much:\n%s%s", r.stdout, r.stderr)
	}
	show("--explain", "2", "-n", "2", "true").fails(t, 240, "--explain 2: the job has ranks 0 to 1")
	show("-n", "2").fails(t, 240)
}
