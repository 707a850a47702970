package peers

import (
	"errors"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/reach"
)

// Whose pod has ended is not told of as one that waits on.
func TestHostsThatWereNotTold(t *testing.T) {
	met := []hosts.Wanted{{Entry: hostlist.Entry{Name: "w0"}}}
	for _, tt := range []struct {
		name, host string
		cause      *link.Cause
		says       string // "": nothing
	}{
		{"told", "w0", nil, ""},
		{"it is ending", "w0", &link.Cause{Stage: link.StageConnect, Ending: true}, ""},
		{"nobody listens where its agent was", "w0", &link.Cause{Stage: link.StageConnect, Refused: true}, "not told that the job has ended: host w0: so; its agent has ended, it seems"},
		{"its name is gone", "w0", &link.Cause{Stage: link.StageResolve}, "its agent has ended, it seems; if it starts again, it waits"},
		{"silent", "w0", &link.Cause{Stage: link.StageConnect, Silent: true}, "not told that the job has ended: host w0: so; it waits"},
		{"never met", "w1", &link.Cause{Stage: link.StageConnect, Refused: true}, "host w1: so; it waits"},
	} {
		v := reach.Visited{Wanted: hosts.Wanted{Entry: hostlist.Entry{Name: tt.host}}, Cause: tt.cause}
		if tt.cause != nil {
			tt.cause.Err = errors.New("so")
		}
		if got := strings.Join(untold([]reach.Visited{v}, met, "it waits"), "|"); (got == "") != (tt.says == "") || !strings.Contains(got, tt.says) {
			t.Errorf("%s: %q", tt.name, got)
		}
	}
}
