package blame

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
)

// Each row is a program of a Python that has mpi4py, on two hosts, with the right answer. MPI that is installed is not MPI that is used.
var usesRows = []struct {
	name, program string // what the interpreter runs
	phases        []string
	init          bool // ranks have spent time in MPI_Init
	says          string
	silent        string
}{
	{name: "never imports it", program: "import time; time.sleep(60)", phases: []string{"launching", "running"}, silent: "MPI_Init"},
	{name: "names it in a branch that it does not take", program: "import time\nif not time:\n    from mpi4py import MPI\ntime.sleep(60)", phases: []string{"launching", "running"}, silent: "MPI_Init"},
	{name: "a child imports it later", program: "import subprocess, sys, time; time.sleep(3); subprocess.run([sys.executable, '-c', 'import time; from mpi4py import MPI; time.sleep(60)'], close_fds=False)",
		phases: []string{"launching", "running", "wiring", "running"}, init: true},
	{name: "imports it later", program: "import time; time.sleep(3); from mpi4py import MPI; time.sleep(60)", phases: []string{"launching", "running", "wiring", "running"}, init: true},
	{name: "imports it, and does not call MPI_Init", program: "import mpi4py, time; mpi4py.rc.initialize = False; from mpi4py import MPI; time.sleep(60)",
		phases: []string{"launching", "running", "wiring"}, init: true, says: "no rank has called MPI_Init"},
	{name: "one of them never comes", program: "import os, time\nif os.environ['MPIUP_RANK'] == '2':\n    time.sleep(60)\nfrom mpi4py import MPI\ntime.sleep(60)",
		phases: []string{"launching", "running", "wiring"}, init: true, says: "rank 2 (w1"},
}

func TestUses(t *testing.T) {
	need.Asked(t, "MPIUP_BLAME_WAITS", "1: jobs of a Python that has mpi4py, for a minute")
	hosted(t)
	need.File(t, "wheels", world.python["mpi4py"], "test/wheels.sh")
	for _, row := range usesRows {
		t.Run(row.name, func(t *testing.T) {
			dir, err := folder()
			if err != nil {
				t.Fatal(err)
			}
			defer os.RemoveAll(dir)
			j := job{flags: []string{"--timeout", "8s", "--report", dir}, program: []string{world.python["mpi4py"], "-c", row.program}}
			res, err := j.run(t.Context(), func(*lab.Process) error { return nil })
			if err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(dir, "report.json"))
			if err != nil {
				t.Fatal(err)
			}
			var r struct {
				Phases []struct{ Phase string }
				Spent  []struct {
					Cause string
					Ranks float64 `json:"rank_s"`
				}
			}
			if err := json.Unmarshal(text, &r); err != nil {
				t.Fatal(err)
			}
			var phases []string
			for _, p := range r.Phases {
				if p.Phase != "gathering" && p.Phase != "placing" && p.Phase != "stopping" && p.Phase != "done" {
					phases = append(phases, p.Phase)
				}
			}
			if !slices.Equal(phases, row.phases) {
				t.Errorf("phases %v, want %v", phases, row.phases)
			}
			for _, s := range r.Spent {
				if s.Cause == "init" && s.Ranks > 0.5 && !row.init {
					t.Errorf("%v rank-seconds in MPI_Init", s.Ranks)
				}
			}
			v, _ := verdictOf(res.Stdout)
			said := strings.Join(v.Evidence, "\n")
			if !strings.Contains(said, row.says) || row.silent != "" && strings.Contains(said, row.silent) {
				t.Errorf("want %q, not %q:\n%s", row.says, row.silent, said)
			}
			if t.Failed() {
				t.Log(fmt.Sprint(phases, r.Spent), res.Stderr)
			}
		})
	}
}
