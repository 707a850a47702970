package agent

import (
	"slices"
	"strings"
	"testing"
)

func TestExpanded(t *testing.T) {
	rank := []string{"MPIUP_RANK=3", "HOME=/root", "LONG=" + strings.Repeat("x", 40<<10)}
	long := "A=" + strings.Repeat("$LONG", 5)
	for _, tt := range []struct{ def, want string }{
		{"LOG=/tmp/$MPIUP_RANK.log", "LOG=/tmp/3.log"},
		{"A=${HOME}/${MPIUP_RANK}$MPIUP_RANK", "A=/root/33"},
		{"A=plain", "A=plain"},
		{"A=$NOBODY_HAS_IT", "A=${NOBODY_HAS_IT}"},
		{"A=5$$", "A=5$"},
		{long, long}, // 200 KB are no variable
	} {
		if got := expanded([]string{tt.def}, rank); !slices.Equal(got, []string{tt.want}) {
			t.Errorf("%.40s is %.60s", tt.def, got)
		}
	}
}
