package integration

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/drawing"
)

func TestDryRun(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, c := range []struct{ name, hosts, args, want string }{
		{"by slot", "w0:2,w1:4", "-n 5", "5 ranks on 2 hosts: ./train\nw0  ranks 0-1  (2 of 2 slots)\nw1  ranks 2-4  (3 of 4 slots)\n"},
		{"every slot", "w0:2,w1:1", "", "3 ranks on 2 hosts: ./train\nw0  ranks 0-1  (2 of 2 slots)\nw1  rank 2     (1 of 1 slot)\n"},
		{"by node", "w0:2,w1:2,w2:2", "-n 4 --map-by node", "4 ranks on 3 hosts: ./train\nw0  ranks 0,3  (2 of 2 slots)\nw1  rank 1     (1 of 2 slots)\nw2  rank 2     (1 of 2 slots)\n"},
		{"-N", "w0:2,w1:4", "-N 1", "2 ranks on 2 hosts: ./train\nw0  rank 0  (1 of 2 slots)\nw1  rank 1  (1 of 4 slots)\n"},
		{"--ppn with -n", "w0:2,w1:4", "--ppn 1 -n 1", "1 rank on 1 host: ./train\nw0  rank 0  (1 of 2 slots)\n"},
		{"ppr", "w0:2,w1:4", "--map-by ppr:2:node", "4 ranks on 2 hosts: ./train\nw0  ranks 0-1  (2 of 2 slots)\nw1  ranks 2-3  (2 of 4 slots)\n"},
		{"oversubscribed", "w0:1,w1:1", "-n 4 --oversubscribe", "4 ranks on 2 hosts: ./train\nw0  ranks 0-1  (2 of 1 slot)\nw1  ranks 2-3  (2 of 1 slot)\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append([]string{"--dry-run"}, strings.Fields(c.args)...)
			r := l.run(t, job{hosts: c.hosts, args: append(args, "./train")})
			if r.Code != 0 || r.Stdout != c.want {
				t.Errorf("ended with %d and printed\n%swant\n%s%s", r.Code, r.Stdout, c.want, r.Stderr)
			}
		})
	}
}

// A plan is drawn with the machine that each host's agent tells of.
func TestDryRunIsDrawn(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	r := l.run(t, job{hosts: "w0:2,w1:2", args: []string{"--dry-run", "--svg", "-", "--oversubscribe", "-n", "4", "./train"}}).OK(t)
	shown := drawing.Is(t, r.Stdout)
	all := strings.Join(append(shown.Texts, shown.Tips...), "\n")
	for _, want := range []string{"4 ranks on 2 hosts: ./train", "w1   2 ranks of 2 slots", "rank 3", " 0: CPUs 0"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in\n%s", want, all)
		}
	}
}

func TestHostfile(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	file := filepath.Join(l.folder(t), "hosts")
	if err := os.WriteFile(file, []byte("# the job's hosts\nw1 slots=2\n\nw0:1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := l.run(t, job{args: []string{"--hostfile", file, "sh", "-c", "echo $MPIUP_RANK $(hostname)"}}).OK(t)
	if got := sorted(r.Stdout); !slices.Equal(got, []string{"0 w1", "1 w1", "2 w0"}) {
		t.Errorf("ranks ran as %q", got)
	}
	l.run(t, job{args: []string{"--hostfile", file, "-n", "4", "true"}}).Fails(t, 240, "3 slots", "--oversubscribe")
}

// Two programs of one job, each with its own variables and directory.
func TestTwoPrograms(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	r := l.run(t, job{hosts: "w0:2,w1:2", args: []string{"-n", "1", "-x", "A=one", "sh", "-c", "echo $MPIUP_RANK/$MPIUP_SIZE $A $B $(pwd)",
		":", "-n", "3", "-x", "B=two", "--wdir", "/usr", "sh", "-c", "echo $MPIUP_RANK/$MPIUP_SIZE $B $(pwd)"}}).OK(t)
	if got := sorted(r.Stdout); !slices.Equal(got, []string{"0/4 one /", "1/4 two /usr", "2/4 two /usr", "3/4 two /usr"}) {
		t.Errorf("printed %q", got)
	}
}

func TestSlots(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	l.run(t, job{hosts: "w0:1,w1:1", args: []string{"-n", "3", "true"}}).Fails(t, 240, "2 slots", "--oversubscribe")
	l.run(t, job{hosts: "w0:1,w1:1", args: []string{"-n", "3", "--oversubscribe", "true"}})
	// Hosts without a count have their agents' own, and going over it needs no flag.
	more := max(80, 2*runtime.NumCPU()+2)
	r := l.run(t, job{hosts: "w0,w1", args: []string{"-n", strconv.Itoa(more), "sh", "-c", "echo $MPIUP_NODE_RANK"}})
	if r.Code != 0 || strings.Count(r.Stdout, "\n") != more {
		t.Errorf("ended with %d and %d lines\n%s", r.Code, strings.Count(r.Stdout, "\n"), r.Stderr)
	}
	if strings.Count(r.Stderr, "usable CPU") != 1 {
		t.Errorf("more ranks than usable CPUs is to be said once:\n%s", r.Stderr)
	}
}
