package hang

import "testing"

// A host's own record of its rank counts, whatever another tells of it.
func TestOthersRecords(t *testing.T) {
	var r Records
	for _, told := range []struct {
		host string
		last uint64
	}{{"w0", 9}, {"w1", 3}, {"w0", 7}} { // rank 2 is on w1
		if err := r.Add(told.host, "w1", Record{Rank: 2, Groups: []Group{{Name: "0", Last: told.last}}}); err != nil {
			t.Fatal(err)
		}
	}
	if r.from[2] != "w1" || r.held["w1"] == 0 || r.held["w0"] != 0 {
		t.Errorf("of %s; %v bytes are held", r.from[2], r.held)
	}
}

func TestRecordsAreBounded(t *testing.T) {
	var r Records
	for rank := range 1 << 16 {
		if err := r.Add("w0", "", Record{Rank: rank, Groups: make([]Group, 64)}); err != nil {
			if r.held["w0"] > MaxHeld {
				t.Errorf("%d bytes are held", r.held["w0"])
			}
			return
		}
	}
	t.Error("a host may tell as much as it likes")
}
