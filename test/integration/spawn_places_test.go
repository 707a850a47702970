package integration

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Where spawned ranks go, on hosts of the run and others: MPICH 5 over PMI-1, Open MPI over PMIx.
func TestSpawnPlaces(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	exe, err := l.compiled(filepath.Join(l.wheels(t), "mpicc"), "nursery")
	if err != nil {
		t.Fatal(err)
	}
	t.Run("MPICH 5", func(t *testing.T) { l.spawnPlaces(t, exe, "-x", "MPIR_CVAR_CH4_NETMOD=ofi") })
	other := l.openMPI(t, "nursery")
	t.Run("Open MPI 4.1.4", func(t *testing.T) { l.spawnPlaces(t, other, ompiFlags...) })
}

func (l *lab) spawnPlaces(t *testing.T, exe string, flags ...string) {
	t.Parallel()
	for _, c := range []struct {
		name, hosts, flags string
		args               []string // of nursery
		want               []string // lines
		code               int
		says               string
	}{
		{name: "on a host without ranks", hosts: "w0:1,w1:2", flags: "-n 1", args: []string{"2"},
			want: []string{"child 0 of 2 on w1", "child 1 of 2 on w1", "nursery ok"}},
		{name: "on free slots of all hosts", hosts: "w0:2,w1:2", flags: "-n 2 --map-by node", args: []string{"2"},
			want: []string{"child 0 of 2 on w0", "child 1 of 2 on w1", "nursery ok"}},
		{name: "on a host by name", hosts: "w0:2,w1:2", flags: "-n 1", args: []string{"1", "", "host", "w1"},
			want: []string{"child 0 of 1 on w1", "nursery ok"}},
		{name: "on a host that joins", hosts: "w0:2", flags: "-n 1", args: []string{"2", "", "host", "w0:1,w2:1"},
			want: []string{"child 0 of 2 on w0", "child 1 of 2 on w2", "nursery ok"}},
		{name: "on a host that is nowhere", hosts: "w0:2", flags: "-n 1", args: []string{"1", "", "host", "nowhere"},
			want: []string{"spawn refused"}, says: "rank 0 on w0 could not spawn " + exe + ": host nowhere: no answer from DNS"},
		{name: "without room", hosts: "w0:1,w1:1", flags: "-n 2", args: []string{"1"},
			want: []string{"spawn refused"}, says: "but there is room for 0 (w0: 1 slot, 1 taken, w1: 1 slot, 1 taken)"},
		{name: "with --oversubscribe", hosts: "w0:1,w1:1", flags: "-n 2 --oversubscribe", args: []string{"1"},
			want: []string{"child 0 of 1 on w0", "nursery ok"}},
		{name: "a program that is missing", hosts: "w0:1,w1:1", flags: "-n 1", args: []string{"1", "/missing"},
			want: []string{"spawn refused"}, says: "could not spawn /missing: rank 0 of spawned job 1 on w1 could not be started: /missing: program not found"},
		{name: "a program that fails", hosts: "w0:1,w1:1", flags: "-n 1", args: []string{"1", "/bin/false"},
			code: 1, says: "rank 0 of spawned job 1 on w1 exited with code 1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := slices.Concat(strings.Fields(c.flags), flags, []string{exe}, c.args)
			r := l.run(t, job{hosts: c.hosts, args: args})
			lines := strings.Split(strings.TrimSuffix(r.Stdout, "\n"), "\n")
			slices.Sort(lines)
			if strings.Join(lines, "\n") != strings.Join(c.want, "\n") {
				t.Errorf("printed %q, not %q\n%s", lines, c.want, r.Stderr)
			}
			if r.Code != c.code || !strings.Contains(r.Stderr, c.says) || c.says == "" && r.Stderr != "" {
				t.Errorf("code %d, said %q, not %q", r.Code, r.Stderr, c.says)
			}
		})
	}
}
