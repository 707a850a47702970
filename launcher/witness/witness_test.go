package witness

import (
	"fmt"
	"testing"

	"github.com/mpiup/mpiup/internal/idset"
)

// on are processes of which the host of each is a letter: "aab" are ranks 0 and 1 on a, and rank 2 on b.
func on(hosts string) Places {
	return Places{All: idset.Range(0, len(hosts)-1), Host: func(id int) string { return hosts[id : id+1] }}
}

func set(t *testing.T, text string) idset.Set {
	t.Helper()
	s, err := idset.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Who says that it waits for whom, and whom that may name.
func TestAccused(t *testing.T) {
	for _, c := range []struct {
		name, hosts, by, about string
		shared                 bool
		seen, likely           string
		want                   string
	}{
		{name: "one of two, on one host", hosts: "aa", by: "0", about: "1"},
		{name: "one of two, on two hosts", hosts: "ab", by: "0", about: "1"},
		{name: "which its own host sees", hosts: "ab", by: "0", about: "1", seen: "1", want: "1"},
		{name: "which does what an innocent may do", hosts: "ab", by: "0", about: "1", likely: "1"},
		{name: "two of three, on one host", hosts: "aaa", by: "0-1", about: "2", want: "2"},
		{name: "the same, where one may have written for all", hosts: "aaa", by: "0-1", about: "2", shared: true},
		{name: "half of four, on one host", hosts: "aaaa", by: "0-1", about: "2-3"},
		{name: "half of four, of one of them", hosts: "aaaa", by: "0-1", about: "3"},
		{name: "three of four, on two hosts", hosts: "aabb", by: "0-2", about: "3", shared: true, want: "3"},
		{name: "one host of two", hosts: "aabb", by: "0-1", about: "2-3"},
		{name: "one host of two, with most ranks", hosts: "aaab", by: "0-2", about: "3"},
		{name: "the same, and the accused's host sees it compute", hosts: "aaab", by: "0-2", about: "3", likely: "3", want: "3"},
		{name: "the same, where one may have written for all", hosts: "aaab", by: "0-2", about: "3", likely: "3", shared: true},
		{name: "one host of three", hosts: "aabbcc", by: "0-1", about: "4"},
		{name: "one host of three, with most ranks", hosts: "aaaabc", by: "0-3", about: "5"},
		{name: "two hosts of three", hosts: "aabbcc", by: "0-3", about: "4-5", want: "4-5"},
		{name: "half of the hosts", hosts: "aabbccdd", by: "0-3", about: "4-7"},
		{name: "half of the hosts, of one of the others", hosts: "aabbccdd", by: "0-3", about: "4"},
		{name: "half of the hosts, with most ranks", hosts: "aaaabbbbcd", by: "0-7", about: "9"},
		{name: "three of four hosts", hosts: "abcd", by: "0-2", about: "3", want: "3"},
		{name: "one rank of each host", hosts: "aaabbbccc", by: "0,3,6", about: "8"},
		{name: "most ranks, and of few hosts most", hosts: "aaaaaabbbccc", by: "0-5,6", about: "11"},
		{name: "itself", hosts: "abc", by: "0-2", about: "2", want: "2"},
		{name: "strangers", hosts: "ab", by: "5-9", about: "1"},
		{name: "nobody", hosts: "abc", by: "0-1"},
	} {
		claim := Claim{About: set(t, c.about), By: set(t, c.by), Seen: set(t, c.seen), Likely: set(t, c.likely), Shared: c.shared}
		if got := on(c.hosts).Accused(claim).String(); got != c.want {
			t.Errorf("%s: %q is accused, want %q", c.name, got, c.want)
		}
	}
	some := on("aab")
	some.Hosts = 4
	if got := some.Accused(Claim{About: idset.Of(2), By: idset.Of(0, 1)}); !got.Empty() {
		t.Errorf("by the word of few of all hosts %s is accused", got)
	}
	if got := (Places{}).Accused(Claim{About: idset.Of(2), By: idset.Of(0, 1), Seen: idset.Of(2)}); !got.Empty() {
		t.Errorf("of an unknown run %s is accused", got)
	}
}

// However many say so, and wherever they are: half of the ranks, or of the hosts, accuse nobody whose own host saw nothing.
func TestNoHalfAccuses(t *testing.T) {
	for _, each := range []int{1, 2, 3} {
		for hosts := 1; hosts <= 6; hosts++ {
			n := each * hosts
			places := Places{All: idset.Range(0, n-1), Host: func(id int) string { return fmt.Sprint(id / each) }}
			for liars := range uint(1) << n {
				var by idset.Set
				on := map[int]bool{}
				for id := range n {
					if liars>>id&1 != 0 {
						by.Add(id)
						on[id/each] = true
					}
				}
				honest := places.All.Sub(by)
				if 2*by.Len() > n && 2*len(on) > hosts {
					continue // most of the ranks, and most of the hosts, lie
				}
				for id := range honest.All() {
					if named := places.Accused(Claim{About: idset.Of(id), By: by, Shared: each%2 == 0}); !named.Empty() {
						t.Fatalf("%d hosts of %d: %s accuse rank %d", hosts, each, by, id)
					}
				}
				if named := places.Accused(Claim{About: honest, By: by}); !named.Empty() {
					t.Fatalf("%d hosts of %d: %s accuse all others", hosts, each, by)
				}
			}
			if n > 12 {
				break
			}
		}
	}
}

func TestBeside(t *testing.T) {
	p := on("aabbc")
	if got := p.Beside(set(t, "1,3-4"), set(t, "0,3")).String(); got != "1" {
		t.Errorf("beside others are %q", got)
	}
}

func TestAround(t *testing.T) {
	p := on("aabbcc")
	if got := p.Around(set(t, "1")).All.String(); got != "0-5" {
		t.Errorf("of one job: %s", got)
	}
	p.Jobs = []idset.Set{set(t, "0-3"), set(t, "4-9")}
	for some, want := range map[string]string{"1": "0-3", "4-5": "4-5", "3-4": "0-5"} {
		if got := p.Around(set(t, some)).All.String(); got != want {
			t.Errorf("around %s: %s", some, got)
		}
	}
}
