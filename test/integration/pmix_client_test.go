package integration

import (
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

const debianPMIx = "/usr/lib/x86_64-linux-gnu/pmix2"

// pmixClient compiles test/mpi/pmix_ompi.c with Debian's libpmix.
func (l *lab) pmixClient(t *testing.T) string {
	t.Helper()
	need.Program(t, "cc", "gcc")
	need.File(t, "libpmix", debianPMIx+"/include/pmix.h", "install libpmix-dev")
	exe := filepath.Join(l.folder(t), "pmix_ompi")
	cc := exec.Command("cc", "-O1", "-Wall", "-I"+debianPMIx+"/include", "-o", exe, "../mpi/pmix_ompi.c", "-L"+debianPMIx+"/lib", "-lpmix", "-lpthread")
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return exe
}

// What no MPI program asks of PMIx, over hosts: a client of Debian's libpmix 4.2.2 by itself.
func TestPMIxClient(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	exe := l.pmixClient(t)
	for _, step := range []string{"late", "basic", "names", "misc", "events", "query", "again", "abort", "control", "invite"} {
		t.Run(step, func(t *testing.T) {
			t.Parallel()
			r := l.run(t, job{hosts: "w0:2,w1:2", args: []string{"-n", "4", "--mpi", "pmix", exe, step}})
			code := map[string]int{"abort": 3, "control": 128 + 9}[step] // of whoever ended rank 3; the others went on
			if r.Code != code || !strings.Contains(r.Stdout, "pmix ok") {
				t.Errorf("ended with %d and printed %q\n%s", r.Code, r.Stdout, r.Stderr)
			}
		})
	}
	t.Run("death", func(t *testing.T) { // ranks of both hosts are told of it, and go on
		t.Parallel()
		r := l.called(t, "mpirun", job{}, "-np", "4", "-H", "w0:2,w1:2", "--enable-recovery", exe, "death")
		if r.Code != 0 || !strings.Contains(r.Stdout, "pmix ok") {
			t.Errorf("ended with %d and printed %q\n%s", r.Code, r.Stdout, r.Stderr)
		}
	})
}

// A host that goes, at once or as a pod that is told to, ends nothing with --enable-recovery, and ranks on
// the others are told which it was.
func TestPMIxClientIsToldOfALostHost(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	exe := l.pmixClient(t)
	for _, c := range []struct {
		name string
		end  func(t *testing.T, l *lab, agent *running)
		says string
	}{
		{"killed", func(t *testing.T, l *lab, _ *running) {
			if err := l.cluster.Kill("b"); err != nil {
				t.Fatal(err)
			}
		}, "host b with ranks 2-3 was lost"},
		{"taken away", func(t *testing.T, _ *lab, agent *running) { agent.Signal(t, syscall.SIGTERM) }, "host b with ranks 2-3 is being taken away"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l := l.apart(t, netns.Config{Hosts: []string{"a", "b"}})
			l.agent(t, "a", container{})
			b := l.agent(t, "b", container{})
			run := l.calling(t, "mpirun", job{}, "-np", "4", "-H", "a:2,b:2", "--enable-recovery", exe, "host")
			run.Says(t, "all listen")
			c.end(t, l, b)
			r := run.Wait(t).Fails(t, 0, c.says, "the other ranks go on (--enable-recovery)")
			for _, rank := range []string{"0", "1"} {
				if !strings.Contains(r.Stdout, "rank "+rank+" was told that b is gone\n") {
					t.Errorf("rank %s was not told: %q\n%s", rank, r.Stdout, r.Stderr)
				}
			}
		})
	}
}
