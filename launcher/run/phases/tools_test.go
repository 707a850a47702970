package phases

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
)

// A tool for a rank that is not there is an error: nothing would be wrapped, and nobody would know.
func TestToolsOfRanksThatAreThere(t *testing.T) {
	for _, tt := range []struct {
		ranks idset.Set
		err   string
	}{
		{idset.Set{}, ""}, {idset.Of(0), ""}, {idset.Of(0, 1), ""},
		{idset.Of(2), "nsys is to start rank 2 (--wrap), and the job has ranks 0 to 1"},
		{idset.Of(0, 7), "nsys is to start rank 7"},
	} {
		err := tools([]job.App{{Argv: []string{"a"}}, {Argv: []string{"b"}, Tools: []job.Tool{{Argv: []string{"nsys"}, Ranks: tt.ranks}}}}, 2)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%v: %v, want %q", tt.ranks, err, tt.err)
		}
	}
}
