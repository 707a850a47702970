package outfit

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

func TestEnvironmentLayers(t *testing.T) {
	base := []string{"PATH=/bin", "HOME=/root", "PMI_FD=9", "PMIX_RANK=3", "MPIUP_RANK=7", "OMPI_COMM_WORLD_RANK=1", "MPI_LOCALRANKID=1", "LANG=C", "broken"}
	for _, tt := range []struct {
		name       string
		unset      []string
		user, ours []string
		want       []string
	}{
		{"inherited protocol variables go", nil, nil, nil,
			[]string{"PATH=/bin", "HOME=/root", "LANG=C"}},
		{"the user's replace the container's in place", nil, []string{"HOME=/u", "X=1"}, nil,
			[]string{"PATH=/bin", "HOME=/u", "LANG=C", "X=1"}},
		{"ours come last", nil, []string{"MPIUP_SIZE=99"}, []string{"MPIUP_SIZE=4"},
			[]string{"PATH=/bin", "HOME=/root", "LANG=C", "MPIUP_SIZE=4"}},
		{"unset", []string{"LANG"}, nil, nil, []string{"PATH=/bin", "HOME=/root"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := Environment(base, tt.unset, tt.user, tt.ours); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// A rank is not told where the job's secret lies, unless its user says so; a person's command is.
func TestRanksAreNotToldOfTheSecret(t *testing.T) {
	base := []string{"PATH=/bin", "MPIUP_KEY=/etc/mpiup/key", "MPIUP_TLS_DIR=/tls", "LANG=C"}
	for _, tt := range []struct {
		name   string
		launch *apiv1.Launch
		user   []string
		want   []string
	}{
		{"a rank", &apiv1.Launch{Job: &apiv1.Job{}}, nil, []string{"PATH=/bin", "LANG=C"}},
		{"a rank whose user says so", &apiv1.Launch{Job: &apiv1.Job{}}, []string{"MPIUP_KEY=/k"}, []string{"PATH=/bin", "LANG=C", "MPIUP_KEY=/k"}},
		{"a command", &apiv1.Launch{Job: &apiv1.Job{}, Exec: &apiv1.Exec{}}, nil, base},
	} {
		if got := Environment(base, taken(tt.launch), tt.user, nil); !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestComputedVariables(t *testing.T) {
	l := &apiv1.Launch{Job: &apiv1.Job{Size: 6, Universe: 8, Restarts: 3, Id: "j", AppOf: []uint32{1, 1, 0, 0, 0, 1}}, Procs: make([]*apiv1.Proc, 2), Apps: []*apiv1.App{{Argv: []string{"a"}}, {Argv: []string{"b", "-x", "1"}}}}
	got := computed("s", "/w", l, &apiv1.Proc{Rank: 5, LocalRank: 1, NodeRank: 2, App: 1})
	want := []string{"MPIUP_SESSION=s", "MPIUP_JOB_ID=j", "PWD=/w", "MPIUP_RANK=5", "MPIUP_SIZE=6",
		"MPIUP_LOCAL_RANK=1", "MPIUP_LOCAL_SIZE=2", "MPIUP_NODE_RANK=2", "MPIUP_RESTART_COUNT=3",
		"OMPI_COMM_WORLD_RANK=5", "OMPI_COMM_WORLD_SIZE=6", "OMPI_COMM_WORLD_LOCAL_RANK=1", "OMPI_COMM_WORLD_LOCAL_SIZE=2",
		"OMPI_COMM_WORLD_NODE_RANK=1", "OMPI_UNIVERSE_SIZE=8", "MPI_LOCALRANKID=1", "MPI_LOCALNRANKS=2",
		"MV2_COMM_WORLD_RANK=5", "MV2_COMM_WORLD_SIZE=6", "MV2_COMM_WORLD_LOCAL_RANK=1", "MV2_COMM_WORLD_LOCAL_SIZE=2",
		"OMPI_NUM_APP_CTX=2", "OMPI_FIRST_RANKS=2 0", "OMPI_APP_CTX_NUM_PROCS=3 3", "OMPI_COMMAND=b", "OMPI_ARGV=-x 1",
		"OMPI_MCA_initial_wdir=/w"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	l.Apps[1].Argv[2] = strings.Repeat("x", 1<<17)
	if got := computed("s", "/w", l, &apiv1.Proc{Rank: 5, App: 1}); len(got) != len(want)-1 || slices.ContainsFunc(got, func(kv string) bool { return strings.HasPrefix(kv, "OMPI_ARGV=") }) {
		t.Errorf("OMPI_ARGV that no program can have is not left out: %d variables", len(got))
	}
	l.Exec = &apiv1.Exec{}
	if got := computed("s", "", l, &apiv1.Proc{}); !slices.Equal(got, []string{"MPIUP_SESSION=s", "MPIUP_JOB_ID=j"}) {
		t.Errorf("exec got %q", got)
	}
}

func TestExpanded(t *testing.T) {
	rank := []string{"MPIUP_RANK=3", "HOME=/root", "LONG=" + strings.Repeat("x", 40<<10)}
	long := "A=" + strings.Repeat("$LONG", 5)
	for _, tt := range []struct{ def, want string }{
		{"LOG=/tmp/$MPIUP_RANK.log", "LOG=/tmp/3.log"},
		{"A=${HOME}/${MPIUP_RANK}$MPIUP_RANK", "A=/root/33"},
		{"A=plain", "A=plain"},
		{"A=$NOBODY_HAS_IT", "A=$NOBODY_HAS_IT"},
		{"A=${NOBODY_HAS_IT}:$HOME", "A=${NOBODY_HAS_IT}:/root"},
		{"A=$HOME$", "A=/root$"},
		{"A=$1.${HOME.$MPIUP_RANK}", "A=$1.${HOME.$MPIUP_RANK}"},
		{"A=${HOME and $(date) ${}$-$HOME", "A=${HOME and $(date) ${}$-/root"},
		{"A=", "A="},
		{"A=5$$", "A=5$"},
		{long, long}, // 200 KB are no variable
	} {
		if got := expanded([]string{tt.def}, rank); !slices.Equal(got, []string{tt.want}) {
			t.Errorf("%.40s is %.60s", tt.def, got)
		}
	}
}

// Each rank has a place of its own in the launcher's trace, and none without one or in a command.
func TestTracing(t *testing.T) {
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	l := &apiv1.Launch{Job: &apiv1.Job{Trace: parent, TraceState: "a=1"}}
	first, second := tracing(l, &apiv1.Proc{Rank: 0}), tracing(l, &apiv1.Proc{Rank: 1})
	if len(first) != 2 || len(second) != 2 || first[0] == second[0] || first[1] != "TRACESTATE=a=1" {
		t.Errorf("%q, %q", first, second)
	}
	if name, value, _ := strings.Cut(first[0], "="); name != "TRACEPARENT" || value == parent || !strings.HasPrefix(value, parent[:36]) || !strings.HasSuffix(value, "-01") {
		t.Errorf("%q", first)
	}
	for _, l := range []*apiv1.Launch{{Job: &apiv1.Job{}}, {Job: &apiv1.Job{Trace: parent}, Exec: &apiv1.Exec{}}} {
		if got := tracing(l, &apiv1.Proc{}); got != nil {
			t.Errorf("%q", got)
		}
	}
	if err := checkSaving(&apiv1.Job{Trace: "00-no"}); err == nil || !strings.Contains(err.Error(), "traceparent") {
		t.Errorf("%v", err)
	}
}

// NCCL's Inspector writes where the agent reads, if its user has switched it on and has not said where.
func TestInspecting(t *testing.T) {
	app := func(env ...string) *apiv1.App { return &apiv1.App{Env: append(env, "NCCL_INSPECTOR_ENABLE=1")} }
	l := &Launch{Launch: &apiv1.Launch{Job: &apiv1.Job{}, Procs: []*apiv1.Proc{{Rank: 4}, {Rank: 5, App: 1}}, Apps: []*apiv1.App{{}, app()}}}
	o := &Outfit{job: Job{Launch: l, Inspects: "/d/1."}}
	if got := l.Inspected(nil); !slices.Equal(got, []uint32{5}) {
		t.Errorf("ranks %d are inspected", got)
	}
	want := []string{"NCCL_INSPECTOR_PROM_DUMP=1", "NCCL_INSPECTOR_DUMP_DIR=/d/1.5", "NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS=30000000"}
	if diff := cmp.Diff(want, o.inspecting(l.Procs[1], l.Apps[1])); diff != "" {
		t.Error(diff)
	}
	for _, left := range []*apiv1.App{{}, app("NCCL_INSPECTOR_DUMP_DIR=/mine"), app("NCCL_INSPECTOR_PROM_DUMP=0")} {
		if got := o.inspecting(l.Procs[1], left); got != nil {
			t.Errorf("%q: it is told %q", left.Env, got)
		}
	}
}
