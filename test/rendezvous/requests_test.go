package rendezvous

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// recorded is one line of what record.py wrote.
type recorded struct {
	rank, body, status, answer int
	method, path               string
}

func recording(t *testing.T, shape string) []recorded {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", shape+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	var all []recorded
	for line := range strings.Lines(string(text)) {
		var r recorded
		if line[0] == '#' {
			continue
		}
		if _, err := fmt.Sscanf(line, "%d %s %s %d %d %d\n", &r.rank, &r.method, &r.path, &r.body, &r.status, &r.answer); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		all = append(all, r)
	}
	return all
}

// Each rank of the recorded runs asked what the rule says, in its order, and nothing else.
func TestRuleIsWhatRanksAsked(t *testing.T) {
	for _, c := range []struct {
		shape         string
		size, perHost int
	}{{"1x2", 2, 2}, {"2x2", 4, 2}} {
		all := recording(t, c.shape)
		set := regexp.MustCompile(`_process_set_hash_([0-9a-f]+)/`).FindStringSubmatch(fmt.Sprint(all))
		if set == nil {
			t.Fatalf("%s: no process set", c.shape)
		}
		for rank := range c.size {
			asked := slices.DeleteFunc(slices.Clone(all), func(r recorded) bool { return r.rank != rank })
			take := func(scope string, want Request) {
				t.Helper()
				n := 0
				for want.Again && n < len(asked) && asked[n].status == 404 && asked[n].path == "/"+scope+"/"+want.Key {
					n++
				}
				if asked = asked[n:]; len(asked) == 0 {
					t.Fatalf("%s: rank %d did not ask %v", c.shape, rank, want)
				}
				got := asked[0]
				late := got.status == 404 && want.Method == "GET" && !want.Again && strings.HasPrefix(want.Key, "rank_")
				if got.method != want.Method || got.path != "/"+scope+"/"+want.Key || got.body != want.Bytes || got.status != 200 && !late {
					t.Fatalf("%s: rank %d asked %v, the rule says %v", c.shape, rank, got, want)
				}
				asked = asked[1:]
			}
			for _, s := range PlaceOf(rank, c.size, c.perHost).Scopes(set[1]) {
				for want := range s.Meet() {
					take(s.Name, want)
				}
				take(s.Name, s.Finish())
			}
			if len(asked) > 0 {
				t.Errorf("%s: rank %d asked %v besides", c.shape, rank, asked[0])
			}
		}
	}
}

// What is put in a scope is what the others get.
func TestRecordedSizes(t *testing.T) {
	for _, shape := range []string{"1x2", "2x2"} {
		put := map[string]int{}
		all := recording(t, shape)
		for _, r := range all {
			if r.method == "PUT" {
				put[r.path] = r.body
			}
		}
		for _, r := range all {
			if r.method == "GET" && r.status == 200 && r.answer != put[r.path] {
				t.Errorf("%s: %s was put with %d bytes and answered with %d", shape, r.path, put[r.path], r.answer)
			}
		}
	}
}
