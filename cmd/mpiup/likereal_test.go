package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/launcher/cli/mpirun"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/reach"
)

// TestRanksLikeTheReal compares which host and which program each rank has with what real launchers said: MPICH 4.0.2
// and Intel MPI 2021.18, which started all on one machine of two cores by -launcher-exec and -bootstrap-exec; Open MPI
// 4.1.4 and 5.0.8 with a machine of eight cores, as in launcher/placement/testdata. Each block of testdata/ranks.txt is
//
//	== FAMILY | VARIABLES | LINE
//	HOST/PROGRAM of rank 0, of rank 1 ...; or "error"; or "error there", where mpiup has a plan;
//	or "not" and what the real one has, where mpiup differs on purpose (docs/mpirun.md)
func TestRanksLikeTheReal(t *testing.T) {
	text, err := os.ReadFile("testdata/ranks.txt")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, file := range map[string]string{"hf": "w0:2\nw1:2\n", "hf1": "w0\nw1\n", "hf31": "w0:3\nw1:1\n",
		"nf2": "n0 slots=4\nn1 slots=4\n", "nf3": "n0 slots=2\nn1 slots=4\nn2 slots=1\n",
		"g0": "n0 slots=0\nn1 slots=2\n", "gz": "n0 slots=0\n", "g3": "n0 slots=2\nn1 slots=2\nn2 slots=2\n",
		"gx": "n0 slots=2\nn1 slots=2\n^n0\n", "gx3": "n0 slots=2\nn1 slots=2\nn2 slots=2\n^n1 # not that\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)

	for _, block := range strings.Split(string(text), "== ")[1:] {
		head, want, _ := strings.Cut(strings.TrimSpace(block), "\n")
		f := strings.Split(head, "|")
		got, err := ranksOf(strings.TrimSpace(f[0]), strings.Fields(f[1]), strings.Fields(f[2]), dir)
		switch theirs, differs := strings.CutPrefix(want, "not "); {
		case differs && (err != nil || got == theirs):
			t.Errorf("%s: %s, %v; the real launcher has %s, and is known to differ", head, got, err, theirs)
		case differs:
		case want == "error" && err == nil:
			t.Errorf("%s: %s; the real launcher refuses it", head, got)
		case want == "error there" && err != nil, want != "error" && want != "error there" && err != nil:
			t.Errorf("%s: %v", head, err)
		case !strings.HasPrefix(want, "error") && got != want:
			t.Errorf("%s:\n%s, the real launcher has\n%s", head, got, want)
		}
	}
}

// ranksOf is host and program of each rank of a command line.
func ranksOf(family string, env, words []string, dir string) (string, error) {
	p := &process{env: append(env, "MPIUP_FAMILY="+family), host: "here"}
	name := "mpirun"
	if family == "mpich" || family == "intel" {
		name = "mpiexec.hydra"
	}
	l, _, err := p.readLine(name, words, dir, func([]string) string { return "" })
	if err != nil {
		return "", err
	}
	cfg, err := p.mpirunConfig(&l, reach.Reach{}, dir)
	if err != nil {
		return "", err
	}

	set, err := (&hosts.Sources{Entries: l.Entries, Number: hosts.Number{Env: p.getenv}, Root: dir, Environ: func() []string { return env }}).Static()
	if err != nil {
		return "", err
	}
	on := set.Entries()
	machine, err := machineOf(family)
	if err != nil {
		return "", err
	}
	list := []job.Host{{Name: "here", Slots: machine.Len(), CPUs: machine.Len(), Layout: machine}}
	if len(on) > 0 {
		list = nil
	}
	for _, e := range on {
		h := job.Host{Name: e.Name, Slots: e.Slots, SlotsGiven: e.Given, CPUs: machine.Len(), Layout: machine}
		if !e.Given {
			h.Slots = machine.Len()
		}
		list = append(list, h)
	}

	plan, err := placement.Place(list, cfg.Apps, cfg.Policy)
	if err != nil {
		return "", err
	}
	var ranks []string
	for _, at := range plan.Placements {
		ranks = append(ranks, fmt.Sprintf("%s/%d", plan.Hosts[at.Host].Name, at.App))
	}
	return strings.Join(ranks, " "), nil
}

// machineOf is the machine on which a real launcher of a family was tried.
func machineOf(family string) (*layout.Layout, error) {
	cores, packages := 2, 1
	if strings.HasPrefix(family, "openmpi") {
		cores, packages = 8, 2
	}
	threads := make([]layout.Thread, cores)
	for i := range threads {
		threads[i].CPU = i
		threads[i].In[layout.Core] = i
		for _, k := range []layout.Kind{layout.L1, layout.L2} {
			threads[i].In[k] = -1
		}
		for _, k := range []layout.Kind{layout.L3, layout.NUMA, layout.Package} {
			threads[i].In[k] = i * packages / cores
		}
	}
	return layout.New(threads)
}

// Every launcher whose defaults are documented is compared.
func TestDefaultsAreCompared(t *testing.T) {
	text, err := os.ReadFile("testdata/ranks.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range mpirun.Defaults() {
		for family, launcher := range map[string]string{"openmpi4": "Open MPI", "openmpi5": "Open MPI", "mpich": "MPICH", "intel": "Intel"} {
			if strings.HasPrefix(d.Launcher, launcher) && !strings.Contains(string(text), "== "+family+" |") {
				t.Errorf("no line of %s is compared", family)
			}
		}
	}
}
