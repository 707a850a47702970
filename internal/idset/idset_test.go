package idset

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/cost"
)

func TestText(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"\n", ""},
		{"0", "0"},
		{"0-3,8\n", "0-3,8"},
		{"8,0-3", "0-3,8"},
		{"0,1", "0-1"},
		{"0-3,2-5,5", "0-5"},
		{"7-7", "7"},
		{"007", "7"},
		{"63,64", "63-64"},
		{"0-63,65-127", "0-63,65-127"},
		{"1048575", "1048575"},
		{"0-1048575", "0-1048575"},
	} {
		s, err := Parse(tt.in)
		if err != nil || s.String() != tt.want {
			t.Errorf("Parse(%q) = %q, %v; want %q", tt.in, s, err, tt.want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{",", `number list ",": a number is missing`},
		{"1,", `number list "1,": a number is missing`},
		{"-1", `number list "-1": a number is missing`},
		{"3-", `number list "3-": a number is missing`},
		{"3-1", `number list "3-1": range 3-1 runs backwards`},
		{"1-2-3", `number list "1-2-3": "2-3" is not a number`},
		{"+1", `number list "+1": "+1" is not a number`},
		{"0x1", `number list "0x1": "0x1" is not a number`},
		{"1 ,2", `number list "1 ,2": "1 " is not a number`},
		{"0-7:2/4", `number list "0-7:2/4": "7:2/4" is not a number`},
		{"1048576", `number list "1048576": "1048576" is above 1048575`},
		{"0-99999999999999999999", `"99999999999999999999" is above 1048575`},
		{strings.Repeat("1", MaxText+1), "number list of 4194305 bytes is longer than 4194304"},
		{"\xff", `number list "\xff": "\xff" is not a number`},
	} {
		s, err := Parse(tt.in)
		if err == nil || !strings.HasSuffix(err.Error(), tt.want) || !s.Empty() {
			t.Errorf("Parse(%.40q) = %q, %v; want %q", tt.in, s, err, tt.want)
		}
	}
}

func TestWorstCaseTextIsWithinTheLimit(t *testing.T) {
	var s Set
	for id := 1; id <= MaxID; id += 2 {
		s.Add(id)
	}
	text := s.String()
	back, err := Parse(text)
	if err != nil || !back.Equal(s) {
		t.Fatalf("%d bytes: %v", len(text), err)
	}
}

// The operations agree with a map of bool.
func TestOperationsAgreeWithAMap(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	random := func() (Set, map[int]bool) {
		var s Set
		m := map[int]bool{}
		limit := 1 + rnd.IntN(400)
		for range rnd.IntN(200) {
			id := rnd.IntN(limit)
			s.Add(id)
			m[id] = true
		}
		return s, m
	}
	for range 300 {
		a, am := random()
		b, bm := random()
		union, both, sub := a.Union(b), a.Intersect(b), a.Sub(b)
		n := 0
		for id := -1; id < 700; id++ {
			if a.Contains(id) != am[id] || union.Contains(id) != (am[id] || bm[id]) ||
				both.Contains(id) != (am[id] && bm[id]) || sub.Contains(id) != (am[id] && !bm[id]) {
				t.Fatalf("%d: a %s b %s union %s both %s sub %s", id, a, b, union, both, sub)
			}
			if am[id] {
				n++
			}
		}
		first, last := -1, -1
		if n > 0 {
			first, last = slices.Min(a.Slice()), slices.Max(a.Slice())
		}
		if a.First() != first || a.Last() != last {
			t.Fatalf("%s: First %d, Last %d", a, a.First(), a.Last())
		}
		if a.Covers(b) != b.Sub(a).Empty() || a.Overlaps(b) == both.Empty() || !a.Covers(sub) || sub.Overlaps(b) {
			t.Fatalf("a %s b %s: Covers %t, Overlaps %t", a, b, a.Covers(b), a.Overlaps(b))
		}
		if a.Len() != n || a.Empty() != (n == 0) || len(a.Slice()) != n || !slices.IsSorted(a.Slice()) {
			t.Fatalf("%s: Len %d, Slice %v, want %d", a, a.Len(), a.Slice(), n)
		}
		if !sub.Union(both).Equal(a) || !Of(a.Slice()...).Equal(a) {
			t.Fatalf("sub + both of %s is %s", a, sub.Union(both))
		}
		back, err := Parse(a.String())
		if err != nil || !back.Equal(a) {
			t.Fatalf("round trip of %s: %s, %v", a, back, err)
		}
	}
}

func TestPossible(t *testing.T) {
	if got := Possible(3, -1, MaxID, MaxID+1, 0).String(); got != fmt.Sprintf("0,3,%d", MaxID) {
		t.Error(got)
	}
}

func TestResultsShareNothing(t *testing.T) {
	a := Range(0, 100)
	for _, u := range []Set{a.Clone(), a.Union(Set{}), a.Intersect(a), a.Sub(Set{})} {
		u.Add(5000)
		u.words[0] = 0
	}
	if a.String() != "0-100" {
		t.Fatal(a)
	}
}

func TestMask(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"0\n", ""},
		{"3", "0-1"},
		{"00000000,80000001", "0,31"},
		{"00000001,00000000,000000f0\n", "4-7,64"},
	} {
		s, err := ParseMask(tt.in)
		if err != nil || s.String() != tt.want {
			t.Errorf("ParseMask(%q) = %q, %v; want %q", tt.in, s, err, tt.want)
		}
	}
	for _, tt := range []struct{ in, want string }{
		{"", `"" is not a hexadecimal word`},
		{"1,,2", `"" is not a hexadecimal word`},
		{"0x3", `"0x3" is not a hexadecimal word`},
		{"100000000", `is not a hexadecimal word of 32 bits`},
		{"1" + strings.Repeat(",00000000", 1<<15), "bit 1048576 is above 1048575"},
	} {
		if s, err := ParseMask(tt.in); err == nil || !strings.Contains(err.Error(), tt.want) || !s.Empty() {
			t.Errorf("ParseMask(%.40q) = %q, %v; want %q", tt.in, s, err, tt.want)
		}
	}
}

func TestRange(t *testing.T) {
	if !Range(3, 2).Empty() || Range(0, 99_999).Len() != 100_000 || Range(5, 5).String() != "5" {
		t.Fatal(Range(3, 2), Range(0, 99_999).Len(), Range(5, 5))
	}
}

func TestAddOutOfRangePanics(t *testing.T) {
	for _, id := range []int{-1, MaxID + 1} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("Add(%d) did not panic", id)
				}
			}()
			var s Set
			s.Add(id)
		}()
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"", "0-3,8\n", "3-1", "1048575", "0-1048575", "9999999999", "1,,2", "0-7:2/4"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		defer cost.Watch(t, cost.Parser, len(text))()
		s, err := Parse(text)
		if err != nil {
			return
		}
		canon := s.String()
		back, err := Parse(canon)
		if err != nil || !back.Equal(s) || back.String() != canon {
			t.Fatalf("%q: %q, back %q, %v", text, canon, back, err)
		}
	})
}

// A stranger's text makes a set of n bits at most.
func FuzzWithin(f *testing.F) {
	for _, s := range []string{"", "0-3,5\n", "1048575", "0-1048575", "0-5,0-5,0-5", "00000006", "6"} {
		f.Add(s, 6)
	}
	f.Fuzz(func(t *testing.T, text string, n int) {
		defer cost.Watch(t, cost.Bound{Fixed: 4 << 10, PerByte: 64}, len(text)+min(max(n, 0), MaxID+1)/8)()
		s, err := Within(text, n)
		if err == nil && s.Last() >= max(n, 0) {
			t.Fatalf("%q below %d: %q", text, n, s)
		}
	})
}

func TestWithin(t *testing.T) {
	for _, tt := range []struct {
		text string
		n    int
		want string
	}{
		{"0-5", 6, "0-5"}, {"6", 6, `"6" is above 5`}, {"0-99999999999999999999", 6, "is above 5"}, {"", 0, ""}, {"0", 0, `"0", where there is none`},
		{"0-5,0-5,0-5", 6, "again and again"}, {"0-1048575", 1 << 30, "0-1048575"}, {"1048576", 1 << 30, "is above 1048575"},
		{strings.Repeat("0", 200), 6, "longer than 160"}, {"x", 6, "is not a number"},
	} {
		s, err := Within(tt.text, tt.n)
		if got := s.String(); err == nil && got != tt.want || err != nil && (tt.want == "" || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%.40q below %d: %q, %v; want %s", tt.text, tt.n, got, err, tt.want)
		}
	}
	if n := cost.Allocated(func() { _, _ = Within("1048575", 6) }); n > 4<<10 {
		t.Errorf("7 bytes cost %d", n)
	}
}

func BenchmarkRandomAdd100k(b *testing.B) {
	ids := rand.New(rand.NewPCG(1, 2)).Perm(100_000)
	for b.Loop() {
		var s Set
		for _, id := range ids {
			s.Add(id)
		}
		if s.String() != "0-99999" {
			b.Fatal(s.Len())
		}
	}
}

// A list costs what its text is long, whatever it says: 400,000 ranges of all numbers were 4 s of work.
func TestParseIsLinear(t *testing.T) {
	long := strings.Repeat("0-1048575,", MaxText/10-1) + "0"
	if _, err := Parse(long); err == nil || !strings.Contains(err.Error(), "again and again") {
		t.Errorf("%v", err)
	}
	if s, err := Parse("0-1048575,0-1048574"); err != nil || s.Len() != MaxID+1 {
		t.Errorf("%d numbers, %v", s.Len(), err)
	}
}

func TestNamed(t *testing.T) {
	for text, want := range map[string]string{"3": "rank 3", "0-2,7": "ranks 0-2,7", "": "ranks "} {
		s, err := Parse(text)
		if got := s.Named("rank"); err != nil || got != want {
			t.Errorf("%q is named %q, not %q: %v", text, got, want, err)
		}
	}
}
