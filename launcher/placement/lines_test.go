package placement

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
)

// linesOf is lines as a test writes them: "n0=1,3 +n1", a rank each.
func linesOf(t *testing.T, text string) (lines []layout.Line) {
	t.Helper()
	for i, word := range strings.Fields(text) {
		host, cpus, listed := strings.Cut(word, "=")
		l := layout.Line{Rank: i, Host: host, At: i + 1}
		if nth, relative := strings.CutPrefix(host, "+n"); relative {
			l.Host, l.Relative = "", int(nth[0]-'0')
		}
		if listed {
			var err error
			if l.CPUs, err = layout.ParseCPUs(cpus); err != nil {
				t.Fatal(err)
			}
		}
		lines = append(lines, l)
	}
	return lines
}

// TestLines has what mpirun of Open MPI 4.1.4 makes of hostfiles that are followed in their order, and of
// rankfiles, on machine a. Without CPUs it binds no rank; here --bind-to is heeded.
func TestLines(t *testing.T) {
	l := machines(t)["a"]
	core := layout.Target{Said: true, To: layout.Core}
	for _, tt := range []struct {
		name, lines, hosts string
		n                  int
		bind               layout.Target
		want               string // "!" before an error
	}{
		{name: "a rank a line", lines: "n0 n1 n0 n2 n1", hosts: "n0:2,n1:2,n2:8", want: "0 n0 -\n1 n1 -\n2 n0 -\n3 n2 -\n4 n1 -\n"},
		{name: "fewer ranks", lines: "n0 n1 n0", n: 2, hosts: "n0:2,n1:1", want: "0 n0 -\n1 n1 -\n"},
		{name: "with cores", lines: "n0=0 n1=1,3 n0=2", hosts: "n0:2,n1:8",
			want: "0 n0 [BB/../../..][../../../..]\n1 n1 [../BB/../BB][../../../..]\n2 n0 [../../BB/..][../../../..]\n"},
		{name: "some with cores", lines: "n0=0 n1", hosts: "n0:2,n1:8", want: "0 n0 [BB/../../..][../../../..]\n1 n1 -\n"},
		{name: "bound", lines: "n0 n1 n0", hosts: "n0:2,n1:1", bind: core,
			want: "0 n0 [BB/../../..][../../../..]\n1 n1 [BB/../../..][../../../..]\n2 n0 [../BB/../..][../../../..]\n"},
		{name: "relative", lines: "+n1=0 +n0=1:2", hosts: "n0:2,n1:2", want: "0 n1 [BB/../../..][../../../..]\n1 n0 [../../../..][../../BB/..]\n"},
		{name: "short name", lines: "n1=0", hosts: "n0.a.b:1,n1.a.b:1", want: "0 n1.a.b [BB/../../..][../../../..]\n"},
		{name: "not of the job", lines: "n0 n9", hosts: "n0:2,n1:2", want: "!line 2 of the file of ranks has rank 1 on host n9, which is not one of the job's"},
		{name: "relative beyond", lines: "+n2=0", hosts: "n0:2,n1:2", want: "!line 1 of the file of ranks has rank 0 on host +n2, counted from 0, and the job has 2 hosts"},
		{name: "too many for slots", lines: "n0 n0", hosts: "n0:1", want: "!2 ranks on host n0, which has 1 slot"},
		{name: "no such core", lines: "n0=9", hosts: "n0:1", want: "!line 1 of the file of ranks, rank 0, host n0: "},
		{name: "a rank without", lines: "n0=0", n: 2, hosts: "n0:2", want: "!rank 1 of 2 has no line"},
	} {
		p := Policy{Binding: layout.Request{Lines: linesOf(t, tt.lines), Bind: tt.bind, Map: layout.Mapping{Policy: "seq"}}}
		plan, err := Place(hostsOf(t, l, tt.hosts), []job.App{{Argv: []string{"a"}, N: tt.n}}, p)
		message, bad := strings.CutPrefix(tt.want, "!")
		if bad && (err == nil || !strings.HasPrefix(err.Error(), message)) {
			t.Errorf("%s: %v, not %s", tt.name, err, message)
		} else if !bad && err != nil {
			t.Errorf("%s: %v", tt.name, err)
		} else if !bad && drawn(plan, l) != tt.want {
			t.Errorf("%s: (+) got\n%s", tt.name, lineDiff(tt.want, drawn(plan, l)))
		}
	}
}
