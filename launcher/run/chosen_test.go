package run

import (
	"strings"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
)

const openMPI = "Open MPI 4.1.4 (/usr/lib/libmpi.so.40)"

// chose are the frames of hosts w0, w1.
func chose(r *play, said ...*apiv1.Chosen) {
	for h, m := range said {
		r.on(h, m.Frame())
	}
}

// What was chosen is said with -v only, and what may not go together always.
func TestChosenIsSaid(t *testing.T) {
	for _, verbose := range []bool{false, true} {
		r := aboutToLaunch(t, Config{Wishes: Wishes{PMI: job.AutoProtocol}, Verbose: verbose})
		chose(r, &apiv1.Chosen{Pmi: apiv1.Pmi_PMI_PMIX, Library: openMPI, Why: "so"}, &apiv1.Chosen{Why: "none"})
		want := "mpiup: warning: the ranks use MPI libraries that may not be able to talk to each other: " +
			"Open MPI 4.1.4 on host w0 (PMIx), no MPI library found on host w1 (PMI-1); use one library and one image for all, or choose with --mpi\n"
		if verbose {
			want = "mpiup: host w0: a.out: PMIx, since so\nmpiup: host w1: a.out: PMI-1, since none\n" + want
		}
		if r.said.String() != want {
			t.Errorf("verbose %v: said\n%snot\n%s", verbose, r.said.String(), want)
		}
		if r.verdict.Any() {
			t.Error("a choice is no failure")
		}
		chose(r, &apiv1.Chosen{App: 7})
		if !r.verdict.Any() {
			t.Error("a choice for a program that is not there was taken")
		}
	}
}

// Whoever chose the protocol: libraries are compared before anything is started.
func TestLibrariesAreComparedUnderEveryProtocol(t *testing.T) {
	for pmi, want := range map[job.Protocol]bool{job.AutoProtocol: true, job.PMIx: true, job.PMI1: true, job.PMI2: true,
		job.PMI1OverPort: true, job.NoProtocol: false} {
		r := aboutToLaunch(t, Config{Wishes: Wishes{PMI: pmi}})
		if got := r.brief.awaits(r.jobs[0]); got != want {
			t.Errorf("%v: agents wait: %v", pmi, got)
		}
		if !want {
			continue
		}
		said := func(version string) *apiv1.Chosen {
			return &apiv1.Chosen{Library: "MPICH " + version + " (/a)", Pmi: apiv1.Pmi(pmi), Sure: true, Waits: true}
		}
		chose(r, said("4.0.2"), said("5.0.0"))
		if lines := r.verdict.Explain(); len(lines) == 0 || !strings.Contains(lines[0], "cannot talk to each other") {
			t.Errorf("%v: MPICH 4.0 with 5.0 ends with %q", pmi, lines)
		}
	}
}

func TestAgentsWaitForEachOther(t *testing.T) {
	mpich := &apiv1.Chosen{Library: "MPICH 4.0.2 (/a)", Sure: true, Waits: true}
	ompi := &apiv1.Chosen{Library: openMPI, Pmi: apiv1.Pmi_PMI_PMIX, Sure: true, Waits: true}
	for _, tt := range []struct {
		name string
		said []*apiv1.Chosen
		lost int // host that is lost after that; -1: none
		word bool
		ends string // the run's last line; "": it goes on
	}{
		{"one host only", []*apiv1.Chosen{mpich}, -1, false, ""},
		{"alike", []*apiv1.Chosen{mpich, mpich}, -1, true, ""},
		{"an agent of an older build", []*apiv1.Chosen{mpich, {Library: mpich.Library, Sure: true}}, -1, true, ""},
		{"the other host is lost", []*apiv1.Chosen{mpich}, 1, true, ""},
		{"Open MPI and MPICH", []*apiv1.Chosen{mpich, ompi}, -1, false,
			"these MPI libraries cannot talk to each other: MPICH 4.0.2 on host w0 (PMI-1), Open MPI 4.1.4 on host w1 (PMIx)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := aboutToLaunch(t, Config{})
			chose(r, tt.said...)
			if tt.lost >= 0 {
				r.step(Ended{Host: tt.lost})
			}
			if told := len(r.sent(0)) == 1 && len(r.jobs[0].waiting) == 0; told != tt.word {
				t.Errorf("host w0 was told to go on: %v", told)
			}
			lines := r.verdict.Explain()
			if (len(lines) > 0) != (tt.ends != "") || tt.ends != "" && (lines[0] != tt.ends || !strings.Contains(lines[1], "nothing was started")) {
				t.Errorf("the run ends with %q", lines)
			}
			if code := r.verdict.Exit(); tt.ends != "" && code != 246 {
				t.Errorf("with %d", code)
			}
		})
	}
}

// A job of several hosts wires up where one of its programs loads MPI; else it runs as soon as its ranks do.
func TestWhetherAJobWiresUp(t *testing.T) {
	for _, tt := range []struct {
		name string
		said []*apiv1.Chosen
		want string
	}{
		{"no MPI anywhere", []*apiv1.Chosen{{Why: "none"}, {Why: "none"}}, "running"},
		{"MPI on one host", []*apiv1.Chosen{{Why: "none"}, {Library: openMPI, Pmi: apiv1.Pmi_PMI_PMIX, Sure: true}}, "wiring"},
		{"a Python that has mpi4py", []*apiv1.Chosen{{Library: openMPI}, {Library: openMPI}}, "running"},
		{"it was imported on one host", []*apiv1.Chosen{{Library: openMPI, Seen: true}}, "wiring"},
		{"agents that do not say", nil, "wiring"},
	} {
		r := aboutToLaunch(t, Config{Wishes: Wishes{PMI: job.AutoProtocol}})
		chose(r, tt.said...)
		for id := range r.ranks {
			r.on(r.who.HostOf(id), (&apiv1.Started{Rank: uint32(id), Pid: 1}).Frame())
		}
		if got := r.Stand().Phase; got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// A program of which it was a guess wires up when it speaks, and once: a rank that loads a library when all have met changes nothing.
func TestAGuessWiresUpWhenItSpeaks(t *testing.T) {
	r := aboutToLaunch(t, Config{Wishes: Wishes{PMI: job.AutoProtocol}})
	guess, seen := &apiv1.Chosen{Library: openMPI, Pmi: apiv1.Pmi_PMI_PMIX}, &apiv1.Chosen{Pmi: apiv1.Pmi_PMI_PMIX, Seen: true}
	chose(r, guess, guess)
	for id := range r.ranks {
		r.on(r.who.HostOf(id), (&apiv1.Started{Rank: uint32(id), Pid: 1}).Frame())
	}
	phase := func(want string) {
		t.Helper()
		if got := r.Stand().Phase; got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	phase("running")
	chose(r, seen, seen)
	phase("wiring")
	for h := range 2 {
		r.on(h, (&apiv1.FenceEnter{Set: "0-3", Epoch: 1}).Frame())
	}
	phase("running")
	chose(r, seen, seen)
	phase("running")
	if r.verdict.Any() {
		t.Errorf("it failed: %v", r.verdict.Explain())
	}
}

// Ranks talk to those that spawn them: a spawn with another library is an error of the rank that asked, before anything is started.
func TestASpawnIsComparedWithItsParent(t *testing.T) {
	for library, refused := range map[string]bool{openMPI: false, "MPICH 4.0.2 (/a)": true} {
		r := playing(t, Config{Wishes: Wishes{PMI: job.AutoProtocol, Apps: []job.App{{Argv: []string{"a.out"}, N: 4}}}},
			[]job.Host{{Name: "w0", Slots: 3, SlotsGiven: true}, {Name: "w1", Slots: 3, SlotsGiven: true}})
		r.play(r.Start(r.now))
		said := &apiv1.Chosen{Pmi: apiv1.Pmi_PMI_PMIX, Library: openMPI, Sure: true}
		chose(r, said, said)
		for id := range uint32(4) {
			r.on(r.who.HostOf(int(id)), (&apiv1.Started{Rank: id, Pid: 1}).Frame())
		}
		r.on(0, (&apiv1.SpawnRequest{Id: 7, Apps: []*apiv1.SpawnApp{{App: &apiv1.App{Argv: []string{"child"}}, Procs: 1}}}).Frame())
		if len(r.jobs) != 2 {
			t.Fatalf("%d jobs; said: %s", len(r.jobs), r.said.String())
		}
		at := r.who.HostOf(4)
		r.on(at, (&apiv1.Chosen{Job: 1, Pmi: apiv1.Pmi_PMI_PMIX, Library: library, Sure: true, Waits: true}).Frame())
		why := ""
		for _, f := range r.sent(at) {
			if m := f.GetProceed(); m.GetJob() == 1 {
				why = m.Refused + "."
			}
		}
		if why == "" || (why != ".") != refused || r.verdict.Any() {
			t.Errorf("%s: refused with %q; the run has failed: %v", library, why, r.verdict.Any())
		}
	}
}
