package launcher

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

const openMPI = "Open MPI 4.1.4 (/usr/lib/libmpi.so.40)"

func TestChoices(t *testing.T) {
	for _, c := range []struct {
		name  string
		said  []*apiv1.Chosen // by host
		lines []string
		odd   string // part of the warning; "": none
	}{
		{"one", []*apiv1.Chosen{{Pmi: apiv1.Pmi_PMI_PMIX, Library: openMPI, Why: "it loads " + openMPI}},
			[]string{"host w0: a.out: PMIx, since it loads " + openMPI}, ""},
		{"alike", []*apiv1.Chosen{{Why: "x"}, {Why: "x"}, {Why: "x"}, {Why: "x"}, {Why: "x"}},
			[]string{"hosts w0, w1, w2, w3 and 1 more: a.out: PMI-1, since x"}, ""},
		{"elsewhere", []*apiv1.Chosen{{Library: "MPICH 4.0.2 (/a)", Why: "x"}, {Library: "MPICH 4.0.2 (/b)", Why: "y"}},
			[]string{"host w0: a.out: PMI-1, since x", "host w1: a.out: PMI-1, since y"}, ""},
		{"versions", []*apiv1.Chosen{{Library: "MPICH 4.0.2 (/a)"}, {Library: "MPICH 4.3.0 (/a)"}}, nil,
			"MPICH 4.0.2 on host w0 (PMI-1), MPICH 4.3.0 on host w1 (PMI-1)"},
		{"protocols", []*apiv1.Chosen{{Pmi: apiv1.Pmi_PMI_PMIX, Library: openMPI}, {}, {}}, nil,
			"Open MPI 4.1.4 on host w0 (PMIx), no MPI library found on hosts w1, w2 (PMI-1)"},
		{"long", []*apiv1.Chosen{{Why: strings.Repeat("x", 1000)}}, []string{"host w0: a.out: PMI-1, since " + strings.Repeat("x", 512) + "..."}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var all choices
			for h, m := range c.said {
				done, err := all.add(h, fmt.Sprintf("w%d", h), len(c.said), m)
				if err != nil || done != (h == len(c.said)-1) {
					t.Fatalf("host %d: %v, %v", h, done, err)
				}
			}
			if got := all.lines(0, 0, "a.out"); c.lines != nil && fmt.Sprint(got) != fmt.Sprint(c.lines) {
				t.Errorf("lines %q, not %q", got, c.lines)
			}
			odd := all.conflict(0, 0, "a.out")
			if (odd != "") != (c.odd != "") || !strings.Contains(odd, c.odd) {
				t.Errorf("conflict %q, not %q", odd, c.odd)
			}
			if _, err := all.add(0, "w0", len(c.said), c.said[0]); err == nil {
				t.Error("a second choice was taken")
			}
		})
	}
}

// What was chosen is said with -v only, and a conflict always.
func TestChosenIsSaid(t *testing.T) {
	for _, verbose := range []bool{false, true} {
		var out bytes.Buffer
		r := aboutToLaunch(t)
		defer stopTimers(r.timers.quiet, r.timers.grace, r.timers.bound)
		r.cfg.Stderr = &out
		if verbose {
			r.cfg.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
		}
		for h, m := range []*apiv1.Chosen{{Pmi: apiv1.Pmi_PMI_PMIX, Library: openMPI, Why: "so"}, {Why: "none"}} {
			r.handle(event{host: h, frame: &apiv1.Frame{Body: &apiv1.Frame_Chosen{Chosen: m}}})
		}
		want := "mpiup: warning: a.out would use different MPI libraries, which cannot talk to each other: Open MPI 4.1.4 on host w0 (PMIx), no MPI library found on host w1 (PMI-1); use one image on all hosts, or choose with --mpi\n"
		if verbose {
			want = "mpiup: host w0: a.out: PMIx, since so\nmpiup: host w1: a.out: PMI-1, since none\n" + want
		}
		if out.String() != want {
			t.Errorf("verbose %v: said\n%snot\n%s", verbose, out.String(), want)
		}
		if r.verdict.any() {
			t.Error("a choice is no failure")
		}
		r.handle(event{host: 0, frame: &apiv1.Frame{Body: &apiv1.Frame_Chosen{Chosen: &apiv1.Chosen{App: 7}}}})
		if !r.verdict.any() {
			t.Error("a choice for a program that is not there was taken")
		}
	}
}
