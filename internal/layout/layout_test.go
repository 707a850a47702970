package layout

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mpiup/mpiup/internal/idset"
)

// two is a machine of two packages with two cores of two threads each, as Intel's numbers go: the
// second threads of all cores come last.
func two(t *testing.T) *Layout {
	t.Helper()
	var threads []Thread
	for core := range 4 {
		for thread := range 2 {
			threads = append(threads, Thread{CPU: core + 4*thread, In: [numKinds]int{
				Core: 10 + core, L1: core, L2: core, L3: core / 2, NUMA: 7 - core/2, Package: core / 2}})
		}
	}
	l, err := New(threads)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func texts(sets []idset.Set) (out []string) {
	for _, s := range sets {
		out = append(out, s.String())
	}
	return out
}

func TestObjects(t *testing.T) {
	l := two(t)
	for kind, want := range map[Kind]string{
		None: "", HWThread: "0 4 1 5 2 6 3 7", Core: "0,4 1,5 2,6 3,7", L3: "0-1,4-5 2-3,6-7", NUMA: "0-1,4-5 2-3,6-7", Package: "0-1,4-5 2-3,6-7",
	} {
		if got := strings.Join(texts(l.Objects(kind)), " "); got != want {
			t.Errorf("%s: %s, not %s", kind, got, want)
		}
	}
	for cpus, want := range map[string]int{"0": 1, "0,4": 1, "0-1": 2, "4,5,6": 3, "9": 0} {
		set, _ := idset.Parse(cpus)
		if got := l.Inside(Core, set); got != want {
			t.Errorf("cores of %s: %d, not %d", cpus, got, want)
		}
	}
}

func TestWithoutWhatIsNotKnown(t *testing.T) {
	none := [numKinds]int{Core: -1, L1: -1, L2: -1, L3: -1, NUMA: -1, Package: -1}
	l, err := New([]Thread{{CPU: 3, In: none}, {CPU: 5, In: none}})
	if err != nil {
		t.Fatal(err)
	}
	for kind, want := range map[Kind][]string{Core: {"3", "5"}, Package: {"3,5"}, NUMA: nil, L3: nil} {
		if d := cmp.Diff(want, texts(l.Objects(kind))); d != "" {
			t.Errorf("%s: %s", kind, d)
		}
	}
}

func TestRestrict(t *testing.T) {
	l := two(t)
	l.Exclusive = true
	r, err := l.Restrict(idset.Of(5, 2, 6, 99))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(texts(r.Objects(Core)), " "); got != "5 2,6" || !r.Exclusive || r.CPUs().String() != "2,5-6" {
		t.Errorf("cores %s of %s", got, r.CPUs())
	}
	if _, err := l.Restrict(idset.Of(9)); err == nil || err.Error() != "none of CPUs 9 is usable; those are 0-7" {
		t.Error(err)
	}
}

func TestRefuses(t *testing.T) {
	for name, threads := range map[string][]Thread{
		"a machine without a usable CPU":            {},
		"CPU 8192 is out of range or there twice":   {{CPU: 8192}},
		"CPU -1 is out of range or there twice":     {{CPU: -1}},
		"CPU 1 is out of range or there twice":      {{CPU: 1}, {CPU: 1}},
		"a machine of 8193 CPUs; 8192 are possible": make([]Thread, 8193),
	} {
		if _, err := New(threads); err == nil || err.Error() != name {
			t.Errorf("%v, not %s", err, name)
		}
	}
}

// The texts are those of Open MPI 4.1.4 for such a machine (rmaps_base_verbose 5).
func TestDraw(t *testing.T) {
	l := two(t)
	for cpus, want := range map[string][2]string{
		"0,4":   {"[BB/..][../..]", "socket 0[core 0[hwt 0-1]]"},
		"4":     {"[.B/..][../..]", "socket 0[core 0[hwt 1]]"},
		"2-3,6": {"[../..][BB/B.]", "socket 1[core 2[hwt 0-1]], socket 1[core 3[hwt 0]]"},
		"":      {"[../..][../..]", ""},
	} {
		set, _ := idset.Parse(cpus)
		if d := cmp.Diff(want, [2]string{l.Draw(set), l.Name(set)}); d != "" {
			t.Errorf("%s: %s", cpus, d)
		}
	}
}

func TestLocality(t *testing.T) {
	l := two(t)
	if got, want := l.Locality(idset.Of(0, 4)), "NM0:SK0:L30:L20:L10:CR0:HT0-1"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
	if got, want := l.Locality(idset.Of(1, 2)), "NM0-1:SK0-1:L30-1:L21-2:L11-2:CR1-2:HT2,4"; got != want {
		t.Errorf("%s, not %s", got, want)
	}
}
