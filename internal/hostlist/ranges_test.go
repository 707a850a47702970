package hostlist

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// text is entries as a list.
func text(entries []Entry) string {
	var words []string
	for _, e := range entries {
		w := e.Name
		if e.Given {
			w += fmt.Sprint(":", e.Slots)
		}
		words = append(words, w)
	}
	return strings.Join(words, " ")
}

func TestRanges(t *testing.T) {
	for _, tt := range []struct{ list, want string }{
		{"w[0-3]", "w0 w1 w2 w3"},
		{"w[0-1,7]:4,x", "w0:4 w1:4 w7:4 x"},
		{"n[08-11]", "n08 n09 n10 n11"},
		{"n[1,02,3-4].rack.svc", "n1.rack.svc n02.rack.svc n3.rack.svc n4.rack.svc"},
		{"r[1-2]n[0-1]:2", "r1n0:2 r1n1:2 r2n0:2 r2n1:2"},
		{"[1-2]w", "1w 2w"},
		{"10.0.0.[1-2]", "10.0.0.1 10.0.0.2"},
		{"[fd00::7]:2,w[0]", "fd00::7:2 w0"},
		{" w[0-1] , w2", "w0 w1 w2"},
	} {
		entries, err := ParseList(tt.list)
		if err != nil || text(entries) != tt.want {
			t.Errorf("%s: %s, %v", tt.list, text(entries), err)
		}
		if strings.Contains(tt.list, ",") || strings.Contains(tt.list, ".") {
			continue
		}
		entries, err = ParseFile(tt.list+" # c\n", "f", Own)
		if err != nil || text(entries) != tt.want {
			t.Errorf("a file with %s: %s, %v", tt.list, text(entries), err)
		}
	}
	entries, err := ParseFile("w[0-1] slots=2 max_slots=4\nw[1-2]\n", "f", OpenMPI)
	if err != nil || text(entries) != "w0:2 w1:3 w2" || entries[2].Line != 2 {
		t.Errorf("Open MPI's file: %s, %v", text(entries), err)
	}
	places, _, err := ParsePlaces("w[0-1] 3\n", "f")
	if err != nil || len(places) != 2 || places[1] != (Place{"w1", "3", 1}) {
		t.Errorf("places: %v, %v", places, err)
	}
}

func TestWrongRanges(t *testing.T) {
	for _, tt := range []struct{ list, says string }{
		{"w[3-1]", `"w[3-1]": the range "3-1" ends before it begins`},
		{"w[]", `"w[]": "" is no number and no range of them, as in w[0-3,7]`},
		{"w[0-]", `"0-" is no number`},
		{"w[0-1-2]", `"0-1-2" is no number`},
		{"w[a-c]", `"w[a-c]": brackets behind a name hold numbers, w[0-3,7], and alone an IPv6 address, [fd00::7]`},
		{"w[0-3", "brackets behind a name hold numbers"},
		{"w0-3]", `is not a host name: "]" is no letter`},
		{"w[0-3],w2", "host w2 is named twice"},
		{"w[0-65536]", "more than 65536 hosts"},
		{"w[0-999999999]", "more than 65536 hosts"},
		{"w[0-99999999999]", "is no number"},
		{"w[0-999]x[0-999]", "more than 65536 hosts"},
		{"a[0-65535],b[0-65535]", "more than 65536 hosts"},
		{"w[" + strings.Repeat("0", 100) + "1-2]", "is no number"},
		{strings.Repeat("w", 300) + "[0-9]", "a name of more than 253 characters"},
	} {
		if entries, err := ParseList(tt.list); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%.40s: %d hosts, %v, not %q", tt.list, len(entries), err, tt.says)
		}
	}
}

// A file that names many hosts again and again is not read for ever.
func TestRangesAreBounded(t *testing.T) {
	begun := time.Now()
	file := strings.Repeat("w[0-60000]\n", MaxFile/11)
	if _, err := ParseFile(file, "f", OpenMPI); err == nil || !strings.Contains(err.Error(), "more than 65536 hosts") {
		t.Errorf("%v", err)
	}
	list := strings.Repeat("w[0-60000],", MaxFile/11)
	if _, err := ParseListAs(list+"w", OpenMPI); err == nil || !strings.Contains(err.Error(), "more than 65536 hosts") {
		t.Errorf("%v", err)
	}
	if took := time.Since(begun); took > 20*time.Second {
		t.Errorf("took %v", took)
	}
}
