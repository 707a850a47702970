package hostlist

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/cost"
)

func TestPlaces(t *testing.T) {
	letters := strings.Join(strings.Split("abcdefghijklmnopqrstuvwxyz", ""), "\n") + "\n"
	for _, tt := range []struct{ file, want string }{
		{"n0\nn1\nn0\n", "n0 n1 n0 | n0:2 n1"},
		{"n0 slots=2\nn1 1,3 # cores\nme@n0\n", "n0 n1[1,3] n0 | n0:3 n1"},
		{"n0 0 - 1\n", "n0[0-1] | n0"},
		{"n0 cpu = 2 0\n", "n0[0] | n0:2"},
		{"", "!hostfile f names no host"},
		{"n0\nn1 x=2\n", `!hostfile f line 2: host n1: "x=" is not known`},
		{"n0 slots=1\nn0 slots=1\n", "!hostfile f line 2: host n0 is on line 1 already"},
		{strings.Repeat(letters, MaxPlaces/26+1), fmt.Sprintf("!hostfile f line %d: more than %d ranks", MaxPlaces+1, MaxPlaces)},
		{strings.Repeat("n0\n", MaxSlots+1), fmt.Sprintf("!hostfile f line %d: host n0: %d slots", MaxSlots+1, MaxSlots+1)},
	} {
		places, entries, err := ParsePlaces(tt.file, "f")
		var words []string
		for _, p := range places {
			if p.CPUs != "" {
				p.Name += "[" + p.CPUs + "]"
			}
			words = append(words, p.Name)
		}
		got := strings.Join(words, " ") + " | " + short(entries)
		message, bad := strings.CutPrefix(tt.want, "!")
		if bad && (err == nil || !strings.HasPrefix(err.Error(), message)) || !bad && (err != nil || got != tt.want) {
			t.Errorf("%.40q: %s, %v, not %s", tt.file, got, err, tt.want)
		}
	}
}

func FuzzPlaces(f *testing.F) {
	f.Add("n0\nn1 1,3\nn0 slots=2\n")
	f.Add("[::1] p0-3;1:2 slots = 4 // x\n")
	f.Fuzz(func(t *testing.T, text string) {
		defer cost.Watch(t, cost.Parser, len(text))()
		places, entries, err := ParsePlaces(text, "f")
		if err != nil {
			return
		}
		if err := CheckDistinct(entries); err != nil || len(places) < len(entries) {
			t.Errorf("%q: %d places, %d hosts, %v", text, len(places), len(entries), err)
		}
	})
}
