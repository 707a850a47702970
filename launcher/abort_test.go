package launcher

import (
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mpiup/mpiup/internal/job"
)

// A process that another has ended fails nobody: the rest goes on. All hosts are told first.
func TestProcessesThatOthersEnd(t *testing.T) {
	for _, tt := range []struct {
		by, says string
		w0, w1   []string
	}{
		{"culler", "mpiup: rank 0 on w0 has ended rank 1 with PMIx_Abort: enough\n",
			[]string{"gone 1 code 3 signal 0 host false"}, []string{"gone 1 code 3 signal 0 host false", "signal 9 to [1]"}},
		{"chief", "mpiup: rank 0 on w0 has ended rank 1 with PMIx_Job_control\n",
			[]string{"gone 1 code 0 signal 0 host false"}, []string{"gone 1 code 0 signal 0 host false", "signal 9 to [1]"}},
	} {
		t.Run(tt.by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hosts := []job.Host{{Name: "w0", Slots: 2}, {Name: "w1", Slots: 2}}
				first := []job.App{{Argv: []string{tt.by}, N: 1}, {Argv: []string{"stays"}, N: 1}, {Argv: []string{"lingers"}, N: 1}}
				code, _, errs, seen := playSpawn(t, hosts, first, job.PMIx)
				if code != 0 || errs != tt.says {
					t.Errorf("code %d, %q; want 0, %q", code, errs, tt.says)
				}
				if d := cmp.Diff([][]string{tt.w0, tt.w1}, [][]string{seen["w0"][1:], seen["w1"][1:]}); d != "" {
					t.Error(d)
				}
			})
		})
	}
}
