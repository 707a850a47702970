package launcher

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/mpiup/mpiup/internal/job"
)

// A process that another has ended has not failed: the rest goes on. All hosts are told first. The run fails in the end, by who ended it.
func TestProcessesThatOthersEnd(t *testing.T) {
	for _, tt := range []struct {
		by, says string
		code     int
		w0, w1   []string
	}{
		{"culler", "mpiup: rank 0 on w0 has ended rank 1 with PMIx_Abort: enough\n",
			3,
			[]string{"gone 1 code 3 signal 0 host false"}, []string{"gone 1 code 3 signal 0 host false", "signal 9 to [1]"}},
		{"chief", "mpiup: rank 0 on w0 has ended rank 1 with PMIx_Job_control\n",
			137,
			[]string{"gone 1 code 0 signal 0 host false"}, []string{"gone 1 code 0 signal 0 host false", "signal 9 to [1]"}},
	} {
		t.Run(tt.by, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				hosts := []job.Host{{Name: "w0", Slots: 2}, {Name: "w1", Slots: 2}}
				first := []job.App{{Argv: []string{tt.by}, N: 1}, {Argv: []string{"stays"}, N: 1}, {Argv: []string{"lingers"}, N: 1}}
				code, _, errs, seen := playSpawn(t, hosts, first, job.PMIx)
				if code != tt.code || !strings.HasPrefix(errs, tt.says) || !strings.Contains(errs, "the others went on") {
					t.Errorf("code %d, %q; want %d, %q", code, errs, tt.code, tt.says)
				}
				if d := cmp.Diff([][]string{tt.w0, tt.w1}, [][]string{seen["w0"][1:], seen["w1"][1:]}); d != "" {
					t.Error(d)
				}
			})
		})
	}
}
