package hostlist

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// unfolded is the names that folds stand for, as ParseList reads them.
func unfolded(t *testing.T, list []fold) (names []string) {
	t.Helper()
	for _, f := range list {
		if !strings.Contains(f.text, "[") || f.count == 1 {
			names = append(names, f.text)
			continue
		}
		all, err := expanded(f.text, MaxHosts)
		if err != nil || len(all) != f.count {
			t.Fatalf("%q: %d names of %d, %v", f.text, len(all), f.count, err)
		}
		names = append(names, all...)
	}
	return names
}

func TestListed(t *testing.T) {
	for _, tt := range []struct{ names, want string }{
		{"w0", "w0"},
		{"w0 w1", "w0, w1"},
		{"w0 w2 w1", "w[0-2]"},
		{"w7 w0 x w1 w2", "w[0-2,7], x"},
		{"n08 n09 n10 n11", "n[08-11]"},
		{"n8 n9 n10 n11", "n[8-11]"},
		{"n08 n9 n10 n11", "n[08,10-11], n9"},
		{"t-worker-0.t.ns.svc t-worker-1.t.ns.svc t-worker-2.t.ns.svc", "t-worker-[0-2].t.ns.svc"},
		{"10.0.0.7 10.0.0.8 10.0.0.9 10.0.1.1", "10.0.0.[7-9], 10.0.1.1"},
		{"fd00::1 fd00::2 fd00::3", "fd00::1, fd00::2, fd00::3"},
		{"a b c d e f g", "a, b, c, d, e and 2 more"},
		{"a b c d e w1 w2 w3", "a, b, c, d, e and 3 more"},
		{"1w 2w 3w", "[1-3]w"},
		{"w w1 w2", "w, w1, w2"},
		{"w w1 w2 w3 w5 w06 w7 a b c d", "w, w[1-3,5,7], w06, a, b and 2 more"},
		{"", ""},
	} {
		if got := Listed(strings.Fields(tt.names)); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.names, got, tt.want)
		}
	}
}

func TestTogether(t *testing.T) {
	var names, texts []string
	for i := 1; i <= 20; i++ {
		names, texts = append(names, fmt.Sprint("w-", i)), append(texts, fmt.Sprintf("10.0.0.%d:7611: connection refused", i))
	}
	names, texts = append(names, "v", "u", "x", "y"), append(texts, "no such name (for 5s): v.svc of v-1", "[fd00::1]:7611: the secret: another", "no such name (for 1m4s): x.svc of v-1", "10.0.0.9:80: connection refused")
	want := []string{"20 hosts, w-[1-20], at port 7611: connection refused", "2 hosts, v, x: no such name (for 5s): HOST.svc of v-1", "host u: [fd00::1]:7611: the secret: another",
		"host y: 10.0.0.9:80: connection refused"}
	if got := Together("host", names, texts); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// What is folded reads as the names that it stands for, each once.
func TestFoldsReadBack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pick := func(of string) string { list := strings.Fields(of); return list[r.IntN(len(list))] }
	for range 2000 {
		var names []string
		for range r.IntN(30) {
			name := pick("w n0 r1n - 10.0.0. 0") + strings.Trim(pick("0 1 2 3 7 08 09 10 11 100 000 999999999 9999999999 |"), "|") + pick("| .svc .s2 b x0 /")
			names = append(names, strings.TrimRight(name, "|/"))
		}
		slices.Sort(names)
		names = slices.Compact(names)
		got := unfolded(t, folded(names))
		if slices.Sort(got); !slices.Equal(got, names) {
			t.Fatalf("%q, not %q", got, names)
		}
	}
}
