package peers

import (
	"bytes"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/visible"
)

// What agents say of themselves never reaches the terminal as it is.
func TestForeignTextIsVisible(t *testing.T) {
	const hostile = "w\x1b]0;mine\a\u009b31m\x9b2J\nmpiup: all is well\r\u202e0w"
	obeyed := regexp.MustCompile("[\x00-\x08\x0b-\x1f\x7f\u0080-\u009f\u202e]")
	v := peersView{Scope: hostile, HostsFrom: "tests", Here: []use{{Program: hostile}}, Peers: []peerRow{{Host: hostile, Version: hostile, Error: hostile}}}
	for _, asJSON := range []bool{false, true} {
		var out bytes.Buffer
		if err := v.print(&out, asJSON, true); err != nil {
			t.Error(err)
		}
		if bad := obeyed.FindString(out.String()); bad != "" || !strings.Contains(out.String(), `\u001b]0;mine`) {
			t.Errorf("%q is shown of %q", bad, out.String())
		}
	}
}

// What agents say of ranks is bounded, and what no agent would say is left out.
func TestRowsOfRanks(t *testing.T) {
	long := strings.Repeat("x", 1000)
	rows := told{host: "w0", reply: &apiv1.RanksReply{Ranks: []*apiv1.RankState{nil,
		{Launcher: long, State: "D", Cpu: 1.996, SilentNs: int64(90 * time.Second), Phase: apiv1.RankPhase_PHASE_FENCE},
		{State: "?", Cpu: math.NaN(), SilentNs: -5, Phase: 99}, {Cpu: math.Inf(1)}}}}.rows()
	if len(rows) != 3 || len(rows[0].Launcher) != maxWord || rows[0].State != "in I/O" || rows[0].CPU != 199.6 || rows[0].Silent != 90 || rows[0].Phase != "in a fence" {
		t.Errorf("%+v", rows)
	}
	if r := rows[1]; r.State != "-" || r.CPU != 0 || r.Silent != 0 || r.Phase != "-" || rows[2].CPU != 0 {
		t.Errorf("%+v", rows)
	}
	stack := &apiv1.ProcStack{Means: long, Frames: append([]string{"a\nb"}, make([]string, 100)...)}
	list := told{host: "w0", reply: &apiv1.RanksReply{Ranks: []*apiv1.RankState{nil, {}, {Rank: 1 << 30, Stack: stack}, {Rank: 3, Stack: stack}}}}.whereabouts()
	if len(list) != 1 || list[0].Rank != 3 || len(list[0].Means) != 200 || len(list[0].Frames) != 64 || list[0].Frames[0] != visible.Line("a\nb") {
		t.Errorf("%+v", list)
	}
}

// Where hosts were looked for, ranks that none of them has are told of. What makes no sense counts for nothing.
func TestRanksOnHostsThatWereNotFound(t *testing.T) {
	for _, tt := range []struct {
		all    bool
		size   uint32
		placed string
		want   string
	}{
		{true, 6, "0-1", "ranks 2-5: on no host that was found and answered"},
		{false, 6, "0-1", ""}, // the user has named hosts
		{true, 2, "0-1", ""},
		{true, 0, "0-1", ""},
		{true, 1 << 31, "0-1", ""},
		{true, 6, "0-900000", ""},
		{true, 6, "all", ""},
	} {
		w0 := told{host: "w0", reply: &apiv1.RanksReply{Waits: []*apiv1.RunWaits{{Launcher: "l", Job: "j", Size: tt.size, Placed: tt.placed}}}}
		var b strings.Builder
		writeAbsent(&b, absent([]told{w0}, tt.all), map[runKey]bool{})
		if got := b.String(); tt.want == "" && got != "" || !strings.HasPrefix(got, tt.want) {
			t.Errorf("%+v: %q", tt, got)
		}
	}
}
