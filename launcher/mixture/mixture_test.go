package mixture

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/run/model"
)

const openMPI = "Open MPI 4.1.4 (/usr/lib/libmpi.so.40)"

// said is what an agent says of a program; hosts answer in their order.
type said struct {
	app   int
	loads string
	pmi   job.Protocol
	sure  bool
}

// placed is a job whose ranks are there, on hosts 0 to 5.
func placed(ranks []job.Placement) *model.Job {
	return &model.Job{Plan: &job.Plan{Placements: ranks}, Hosts: []int{0, 1, 2, 3, 4, 5}}
}

func TestJudge(t *testing.T) {
	lib := func(app int, library string) said {
		pmi := job.PMI1
		if strings.HasPrefix(library, "Open MPI") {
			pmi = job.PMIx
		}
		return said{app, library, pmi, library != ""}
	}
	guess := func(app int, library string) said { s := lib(app, library); s.sure = false; return s }
	with := func(s said, p job.Protocol) said { s.pmi = p; return s }
	for _, tt := range []struct {
		name string
		said []said
		want Verdict
		text string // part of it
	}{
		{"one", []said{lib(0, openMPI)}, Fine, ""},
		{"alike", []said{lib(0, openMPI), lib(0, openMPI), lib(1, openMPI)}, Fine, ""},
		{"elsewhere", []said{lib(0, "MPICH 4.0.2 (/a)"), lib(0, "MPICH 4.0.2 (/b)")}, Fine, ""},
		{"two programs", []said{lib(0, openMPI), lib(1, "MPICH 4.0.2 (/b)")}, Hopeless,
			"Open MPI 4.1.4 in a on host w0 (PMIx), MPICH 4.0.2 in b on host w1 (PMI-1)"},
		{"two hosts", []said{lib(0, openMPI), lib(0, "MPICH 4.0.2 (/b)"), lib(0, openMPI)}, Hopeless, "Open MPI 4.1.4 on hosts w0, w2 (PMIx), MPICH 4.0.2 on host w1"},
		{"MPICH and Intel MPI", []said{lib(0, "MPICH 4.3.2 (/a)"), lib(0, "Intel MPI 2021.18.1 (/b)")}, Hopeless, "Intel MPI 2021.18.1 on host w1"},
		{"MPICH 4.2 and 4.3", []said{lib(0, "MPICH 4.2.3 (/a)"), lib(0, "MPICH 4.3.2 (/a)")}, Hopeless, ""},
		{"MPICH 4.3.1 and 4.3.2", []said{lib(0, "MPICH 4.3.1 (/a)"), lib(0, "MPICH 4.3.2 (/a)")}, Doubtful, "MPICH 4.3.1 on host w0 (PMI-1), MPICH 4.3.2 on host w1"},
		{"Open MPI 4 and 5", []said{lib(0, openMPI), lib(0, "Open MPI 5.0.11 (/a)")}, Hopeless, ""},
		{"Open MPI 4.1.4 and 4.1.8", []said{lib(0, openMPI), lib(0, "Open MPI 4.1.8 (/a)")}, Doubtful, ""},
		{"Open MPI of no version", []said{lib(0, openMPI), lib(0, "Open MPI (libmpi.so.40, which is not there)")}, Doubtful, ""},
		{"Intel MPI's versions", []said{lib(0, "Intel MPI 2021.18.1 (/a)"), lib(0, "Intel MPI 2021.19.0 (/a)")}, Doubtful, ""},
		{"a wrapper beside MPI", []said{lib(0, openMPI), lib(1, "")}, Fine, ""},
		{"no MPI anywhere", []said{lib(0, ""), lib(1, "")}, Fine, ""},
		{"a host without the library", []said{lib(0, openMPI), lib(0, "")}, Doubtful, "Open MPI 4.1.4 on host w0 (PMIx), no MPI library found on host w1 (PMI-1)"},
		{"a guess", []said{lib(0, openMPI), guess(1, "MPICH 4.0.2 (/b)")}, Doubtful, "MPICH 4.0.2 in b on host w1"},
		{"a guess beside two that are sure", []said{lib(0, openMPI), guess(1, "MPICH 4.0.2 (/b)"), lib(2, "Intel MPI 2021.18.1 (/b)")}, Hopeless,
			"Open MPI 4.1.4 in a on host w0 (PMIx), Intel MPI 2021.18.1 in c on host w2 (PMI-1)"},
		{"two protocols of one library", []said{lib(0, "MPICH 4.3.2 (/a)"), with(lib(0, "MPICH 4.3.2 (/a)"), job.PMIx)}, Doubtful, "(PMIx)"},
		{"many", []said{lib(0, "MPICH 1.0"), lib(0, "MPICH 2.0"), lib(0, "MPICH 3.0"), lib(0, "MPICH 4.0"), lib(0, "MPICH 5.0"), lib(0, "MPICH 6.0")}, Hopeless, ", 2 more"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			programs, places := []string{"a"}, []job.Placement(nil)
			for h, s := range tt.said {
				places = append(places, job.Placement{Host: h, App: s.app}, job.Placement{Host: h, App: s.app})
				if s.app >= len(programs) {
					programs = []string{"a", "b", "c"}
				}
			}
			j := New(programs, placed(places))
			for h, s := range tt.said {
				if j.Complete() {
					t.Fatal("complete too early")
				}
				m := Answer{App: s.app, Library: s.loads, Protocol: s.pmi, Sure: s.sure, Why: "x"}
				if _, err := j.Add(Host{h, fmt.Sprintf("w%d", h)}, m); err != nil {
					t.Fatal(err)
				}
			}
			if got, text := j.Judge(nil); !j.Complete() || got != tt.want || !strings.Contains(text, tt.text) || (text != "") != (tt.want != Fine) {
				t.Errorf("complete %v, %d, %q; want %d, %q", j.Complete(), got, text, tt.want, tt.text)
			}
		})
	}
}

// Ranks talk to those that spawned them, whatever else goes together.
func TestJudgeBesideAParent(t *testing.T) {
	of := func(library string, sure bool) *Job {
		j := New([]string{"a"}, placed([]job.Placement{{}}))
		pmi := job.PMI1
		if strings.HasPrefix(library, "Open MPI") {
			pmi = job.PMIx
		}
		if _, err := j.Add(Host{0, "w0"}, Answer{Library: library, Protocol: pmi, Sure: sure}); err != nil {
			t.Fatal(err)
		}
		return j
	}
	for _, tt := range []struct {
		name          string
		child, parent *Job
		want          Verdict
		text          string
	}{
		{"one library", of(openMPI, true), of(openMPI, true), Fine, ""},
		{"two", of("MPICH 4.0.2 (/b)", true), of(openMPI, true), Hopeless,
			"MPICH 4.0.2 on host w0 (PMI-1); those that spawned them, Open MPI 4.1.4 on host w0 (PMIx)"},
		{"a guess", of("MPICH 5.0.1 (/b)", true), of("MPICH 4.0.2 (/b)", false), Doubtful, "; those that spawned them, MPICH 4.0.2 on host w0"},
		{"a parent that shows none", of(openMPI, true), of("", false), Fine, ""},
		{"a child that shows none", of("", false), of(openMPI, true), Fine, ""},
		{"a parent of which nothing is known", of(openMPI, true), nil, Fine, ""},
	} {
		if got, text := tt.child.Judge(tt.parent); got != tt.want || text != tt.text && (tt.want != Doubtful || !strings.HasSuffix(text, tt.text+" (PMI-1)")) {
			t.Errorf("%s: %d, %q", tt.name, got, text)
		}
	}
}

func TestAnswers(t *testing.T) {
	j := New([]string{"a.out", "b"}, placed([]job.Placement{{Host: 0}, {Host: 1}, {Host: 2}, {Host: 3}, {Host: 4}, {Host: 5, App: 1}}))
	add := func(h, app int, why string) (bool, error) {
		return j.Add(Host{h, fmt.Sprintf("w%d", h)}, Answer{App: app, Why: why})
	}
	for h := range 5 {
		if last, err := add(h, 0, "x"); err != nil || last != (h == 4) {
			t.Errorf("host %d: last %v, %v", h, last, err)
		}
	}
	for name, p := range map[string]place{"twice": {0, 0}, "a host of no rank": {9, 0}, "a host of another program": {0, 1}, "a program that is not there": {0, 7}} {
		if _, err := add(p.host, p.app, "x"); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	if got := fmt.Sprint(j.Lines(0)); got != "[hosts w0, w1, w2, w3 and 1 more: a.out: PMI-1, since x]" {
		t.Error(got)
	}
	if _, ok := j.First(1); ok || j.Complete() {
		t.Error("an answer that nobody gave")
	}
	if j.Drop(5); !j.Complete() {
		t.Error("a host that is gone is waited for")
	}
	j = New([]string{"a.out"}, placed([]job.Placement{{}}))
	if _, err := add(0, 0, strings.Repeat("x", 1000)); err != nil || len(j.Lines(0)[0]) > 600 {
		t.Errorf("%v, %q", err, j.Lines(0))
	}
}
