package pmix_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/test/need"
)

const debianPMIx = "/usr/lib/x86_64-linux-gnu/pmix2"

// client compiles test/mpi/pmix_ompi.c with Debian's libpmix.
func client(t *testing.T) string {
	t.Helper()
	need.Program(t, "cc", "gcc")
	dir := debianPMIx
	if _, err := os.Stat(dir); err != nil {
		dir = strings.TrimSuffix(dir, "2") // Ubuntu 20.04
	}
	need.File(t, "libpmix", dir+"/include/pmix.h", "install libpmix-dev")
	exe := filepath.Join(t.TempDir(), "pmix_ompi")
	cc := exec.Command("cc", "-O1", "-Wall", "-I"+dir+"/include", "-o", exe, "../../test/mpi/pmix_ompi.c", "-L"+dir+"/lib", "-lpmix", "-lpthread")
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exe
}

// dialects are how libpmix 4.2 is made to speak each: it takes the newest that it is offered.
var dialects = []struct {
	name string
	drop []string
	env  []string
}{
	{"v41", nil, nil},
	{"v4", []string{"PMIX_SERVER_URI41"}, nil},
	{"v3", []string{"PMIX_SERVER_URI41", "PMIX_SERVER_URI4"}, nil},
	{"v21", []string{"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3"}, nil},
	{"v41 described", nil, []string{described}},
	{"v4 described", []string{"PMIX_SERVER_URI41"}, []string{described}},
	{"v3 described", []string{"PMIX_SERVER_URI41", "PMIX_SERVER_URI4"}, []string{described}},
	{"v21 described", []string{"PMIX_SERVER_URI41", "PMIX_SERVER_URI4", "PMIX_SERVER_URI3"}, []string{described}},
}

const described = "PMIX_BFROP_BUFFER_TYPE=PMIX_BFROP_BUFFER_FULLY_DESC"

func TestDialects(t *testing.T) {
	hello, exe := program(t, "hello"), client(t)
	for _, d := range dialects {
		t.Run(d.name, func(t *testing.T) {
			j := &trial{hosts: 2, perHost: 2, drop: d.drop, env: d.env}
			j.hello(t, j.run(t, hello))
			if testing.Short() {
				return
			}
			for _, step := range []string{"basic", "misc", "events"} {
				j.ok(t, exe, step)
			}
		})
	}
}

func (j *trial) ok(t *testing.T, argv ...string) {
	t.Helper()
	o := j.run(t, argv...)
	o.clean(t)
	if !strings.Contains(o.out, "pmix ok") {
		t.Errorf("%v printed %q", argv[1:], o.out)
	}
}

func TestClient(t *testing.T) {
	exe := client(t)
	for _, shape := range [][2]int{{1, 1}, {1, 4}, {2, 2}, {4, 1}} {
		for _, step := range []string{"late", "basic", "names", "misc", "events", "again"} {
			t.Run(fmt.Sprintf("%dx%d %s", shape[0], shape[1], step), func(t *testing.T) {
				j := &trial{hosts: shape[0], perHost: shape[1]}
				j.ok(t, exe, step)
				if step == "misc" && !slices.Contains(j.events, "log 0 true logged text\n") {
					t.Errorf("events %q", j.events)
				}
			})
		}
	}
}

// Ranks of different dialects in one job: what they put is written anew for each other.
func TestMixedDialects(t *testing.T) {
	exe := client(t)
	j := &trial{hosts: 2, perHost: 2, envOf: func(rank int) []string {
		if rank == 1 {
			return []string{described}
		}
		return nil
	}, dropOf: func(rank int) []string { return dialects[rank].drop }}
	for _, step := range []string{"basic", "names", "misc"} {
		j.ok(t, exe, step)
	}
}

func TestOpenMPIWithoutCollectingFence(t *testing.T) {
	hello := program(t, "hello")
	j := &trial{hosts: 2, perHost: 2, env: []string{"OMPI_MCA_pmix_base_async_modex=1", "OMPI_MCA_pmix_base_collect_data=0"}}
	j.hello(t, j.run(t, hello))
	if j.star.awaits == 0 {
		t.Error("nothing was fetched from the other host")
	}
}

func TestOpenMPIAbort(t *testing.T) {
	j := &trial{hosts: 2, perHost: 2}
	o := j.run(t, program(t, "abort"), "42", "3")
	if !slices.Contains(j.events, "abort 3 42 []") {
		t.Errorf("events %v\n%s", j.events, o.out)
	}
}

func TestOpenMPIRankEndsWithoutFinalize(t *testing.T) {
	exe := program(t, "exitcode")
	for _, how := range []string{"without", "signal", "before"} {
		t.Run(how, func(t *testing.T) {
			j := &trial{hosts: 1, perHost: 3, envOf: func(r int) []string { return []string{fmt.Sprintf("MPIUP_RANK=%d", r)} }}
			code := "9"
			if how == "before" {
				code = "0" // a failure would have the others killed before they learn of it
			}
			o := j.run(t, exe, code, "1", how)
			var gone *kvs.GoneError
			err := errors.Join(o.errs...)
			if how == "before" && !errors.As(err, &gone) || how != "before" && !errors.Is(err, pmix.ErrUnfinished) {
				t.Errorf("%v\n%s", err, o.out)
			}
		})
	}
}

func TestOpenMPINames(t *testing.T) {
	for _, name := range []string{"publish", "accept_ompi"} {
		exe := program(t, name)
		for _, shape := range [][2]int{{1, 4}, {2, 2}} {
			j := &trial{hosts: shape[0], perHost: shape[1]}
			o := j.run(t, exe)
			o.clean(t)
			if want, _, _ := strings.Cut(name, "_"); !strings.Contains(o.out, want+" ok") {
				t.Errorf("printed %q", o.out)
			}
		}
	}
}

// What killed ranks leave behind is removed.
func TestOpenMPILeavesNothing(t *testing.T) {
	var dirs []string
	j := &trial{hosts: 2, perHost: 2, change: func(c *pmix.Config) { dirs = append(dirs, c.SessionDir) }}
	j.run(t, program(t, "exitcode"), "9", "1", "signal")
	for _, dir := range dirs {
		filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.IsDir() {
				t.Errorf("%s is left, %v", path, err)
			}
			return nil
		})
	}
}
