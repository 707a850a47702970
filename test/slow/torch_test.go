package slow

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/mpiup/mpiup/agent/look"
	"github.com/mpiup/mpiup/launcher/slow"
)

// What torch 2.15.0's own recorder wrote of two ranks over Gloo, of which rank 1 slept 0.2 s before each of 30 all-reduces and rank 0 0.1 s: both called from
// within by torch._C._distributed_c10d._dump_fr_trace, since nobody can ask for it from outside.
func TestTorchRecords(t *testing.T) {
	r, err := look.NewRecorder(t.TempDir(), 2)
	if err != nil {
		t.Fatal(err)
	}
	for rank := range 2 {
		text, err := os.ReadFile(filepath.Join("testdata", "gloo-2.15-rank_"+strconv.Itoa(rank)))
		if err == nil {
			err = os.WriteFile(r.Prefix()+strconv.Itoa(rank), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	var calls slow.Calls
	r.News(t.Context(), func(rec look.Record) { calls.Hear("w0", slow.Offset{}, rec.Flight) })
	if found, measured := calls.Find(10 * time.Second); !measured || found.Rank != 1 || found.Share < 0.3 || found.Share > 0.6 {
		t.Errorf("%+v, %v", found, measured)
	}
}
