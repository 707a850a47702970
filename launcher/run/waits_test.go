package run

import (
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// What an agent makes up of who waits for whom is refused.
func TestNonsenseOfWaits(t *testing.T) {
	for _, w := range []*apiv1.Waits{{Silent: "x"}, {Silent: "-1"}, {Waits: []*apiv1.Wait{{Set: "0-99999999"}}},
		{Waits: []*apiv1.Wait{{Set: "0-1", Entered: "?"}}}} {
		if _, err := HoldupOf(w, 4); err == nil {
			t.Errorf("%v was taken", w)
		}
	}
	if r, err := HoldupOf(&apiv1.Waits{Silent: "2", Waits: []*apiv1.Wait{{Set: "0-3#7", Entered: "0-1", Seconds: 64}}}, 4); err != nil ||
		r.Silent.String() != "2" || r.Open[0].Of.String() != "0-3" || r.Open[0].Entered.String() != "0-1" || r.Open[0].Age.Seconds() != 64 {
		t.Errorf("%+v, %v", r, err)
	}
}
