package agent

import (
	"slices"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

func TestEnvironmentLayers(t *testing.T) {
	base := []string{"PATH=/bin", "HOME=/root", "PMI_FD=9", "PMIX_RANK=3", "MPIUP_RANK=7", "LANG=C", "broken"}
	for _, tt := range []struct {
		name           string
		unset          []string
		user, computed []string
		want           []string
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
			if got := environment(base, tt.unset, tt.user, tt.computed); !slices.Equal(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestComputedVariables(t *testing.T) {
	l := &apiv1.Launch{Size: 6, JobId: "j", Procs: make([]*apiv1.Proc, 2)}
	got := computedEnv("s", "/w", l, &apiv1.Proc{Rank: 5, LocalRank: 1, NodeRank: 2})
	want := []string{"MPIUP_SESSION=s", "MPIUP_JOB_ID=j", "PWD=/w", "MPIUP_RANK=5", "MPIUP_SIZE=6",
		"MPIUP_LOCAL_RANK=1", "MPIUP_LOCAL_SIZE=2", "MPIUP_NODE_RANK=2"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	l.Exec = true
	if got := computedEnv("s", "", l, &apiv1.Proc{}); !slices.Equal(got, []string{"MPIUP_SESSION=s", "MPIUP_JOB_ID=j"}) {
		t.Errorf("exec got %q", got)
	}
}
