package layout

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/test/cost"
)

// eight is two packages of two cores with two threads each; the kernel counts cores first.
func eight(t testing.TB) *Layout {
	t.Helper()
	var threads []Thread
	for i := range 8 {
		th := Thread{CPU: i/2 + i%2*4}
		for _, k := range Kinds() {
			th.In[k] = i / 2
		}
		th.In[Package] = i / 4
		threads = append(threads, th)
	}
	l, err := New(threads)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestCPUs(t *testing.T) {
	l := eight(t)
	for _, tt := range []struct {
		list      string
		hwthreads bool
		want      string // sets of kernel numbers; or an error
	}{
		{list: "0", want: "0,4"},
		{list: "0,2-3", want: "0,4 2,6 3,7"},
		{list: "3,0", want: "3,7 0,4"},
		{list: "*", want: "0,4 1,5 2,6 3,7"},
		{list: "1:0", want: "2,6"},
		{list: "1:0-1", want: "2,6 3,7"},
		{list: "s1:*", want: "2,6 3,7"},
		{list: "0:1;1:0", want: "1,5 2,6"},
		{list: "p0,4", want: "0 4"},
		{list: "p0-1", want: "0 1"},
		{list: "0-1", hwthreads: true, want: "0 4"},
		{list: "1:3", hwthreads: true, want: "7"},
		{list: " \"1\" ", want: "1,5"},
		{list: "4", want: "there is no core 4: 4 can be used, counted from 0"},
		{list: "8", hwthreads: true, want: "there is no hardware thread 8"},
		{list: "2:0", want: "there is no socket 2 among the 2"},
		{list: "1:2", want: "there is no core 2: 2 can be used"},
		{list: "p9", want: "CPU 9 cannot be used: those that can are 0-7"},
		{list: "", want: "the list of CPUs is empty"},
		{list: "3-1", want: `"3-1" runs backwards`},
		{list: "1,,2", want: `"" is no number`},
		{list: "-1", want: `"" is no number`},
		{list: "8192", want: `"8192" is no number from 0 to 8191`},
		{list: "p1:0", want: `"p1" is no number`},
		{list: "1:p0", want: "leave the socket out"},
		{list: strings.Repeat("1,", maxList), want: "bytes; 65536 are possible"},
	} {
		got := ""
		c, err := ParseCPUs(tt.list)
		if err == nil {
			var sets []idset.Set
			if sets, err = c.On(l, tt.hwthreads); err == nil {
				got = strings.Join(slices.Collect(func(yield func(string) bool) {
					for _, s := range sets {
						yield(s.String())
					}
				}), " ")
			}
		}
		if err != nil && !strings.Contains(err.Error(), tt.want) || err == nil && got != tt.want {
			t.Errorf("%.40q: %s %v, not %s", tt.list, got, err, tt.want)
		}
	}
}

func TestKernel(t *testing.T) {
	c, err := ParseCPUs("4-5;1:0")
	if err != nil {
		t.Fatal(err)
	}
	sets, err := c.Kernel().On(eight(t), false)
	if err != nil || len(sets) != 3 || sets[0].String() != "4" || sets[2].String() != "2,6" {
		t.Error(sets, err)
	}
}

func TestRankfile(t *testing.T) {
	cpus := func(s string) CPUs {
		c, err := ParseCPUs(s)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	text := "# a comment\n\nrank 1=w1 slot=1:0-2 # and one\nRANK 0 = root@w0\tslots = 4,5\n rank 2=+n1 slot=0:0;1:0\n"
	want := []Line{{Rank: 1, Host: "w1", CPUs: cpus("1:0-2"), At: 3}, {Rank: 0, Host: "w0", CPUs: cpus("4,5"), At: 4}, {Rank: 2, Relative: 1, CPUs: cpus("0:0;1:0"), At: 5}}
	got, err := ParseRankfile(text)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(cpuRange{})); d != "" {
		t.Error(d)
	}
	for text, want := range map[string]string{
		"":                                 "it names no rank",
		"# only this\n":                    "it names no rank",
		"rang 0=a slot=0":                  `line 1: "rang 0=a slot=0" does not begin with rank`,
		"rank x=a slot=0":                  "names no rank",
		"rank 0 a slot=0":                  "names no rank",
		"rank 0=a":                         "rank 0 has no slot=",
		"rank 0=a slot 1":                  "rank 0 has no slot=",
		"rank 0= slot=1":                   "rank 0 has no",
		"rank 0=a slot=":                   "rank 0: the list of CPUs is empty",
		"rank 0=a slot=x":                  `"x" is no number`,
		"rank 0=+nx slot=0":                `host "+nx" is none`,
		"rank 0=a slot=0\nrank 0=b slot=0": "line 2: rank 0 has its place on line 1 already",
		"rank 99999999999=a slot=0":        "names no rank",
		"rank 0=a slot=" + strings.Repeat("1", maxList+1): "are possible",
	} {
		if _, err := ParseRankfile(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, not %s", text, err, want)
		}
	}
}

func FuzzRankfile(f *testing.F) {
	f.Add("rank 0=a slot=1:0-2\nrank 1=+n1 slot=p0,1;0:*\n")
	l := eight(f)
	f.Fuzz(func(t *testing.T, text string) {
		defer cost.Watch(t, cost.Parser, len(text))()
		lines, err := ParseRankfile(text)
		if err != nil {
			return
		}
		for _, line := range lines {
			if line.Rank < 0 || line.Rank >= most || line.Relative < 0 || line.CPUs == nil {
				t.Errorf("%+v", line)
			}
			sets, err := line.CPUs.On(l, false)
			for _, s := range sets {
				if err == nil && (s.Empty() || !l.CPUs().Covers(s)) {
					t.Errorf("CPUs %s", s)
				}
			}
		}
	})
}

func TestListsOfMapBy(t *testing.T) {
	for text, want := range map[string]string{
		"pe-list=0,2-3": "0,4 2,6 3,7", "PE-LIST=1:ordered": "1,5 ordered", "pe-list:0-1": "0,4 1,5", "pe-list:=3:ordered": "3,7 ordered", ":pe-list=1,0:span": "1,5 0,4",
		"pe-list": "the list of CPUs is empty", "pe-list=": "the list of CPUs is empty", "pe-list0": `"pe-list0" is not known`, "pe-lists=0": `"pe-lists=0" is not known`,
	} {
		m, err := ParseMapBy(text)
		if err != nil {
			if !strings.HasPrefix(err.Error(), want) {
				t.Errorf("%s: %v, want %s", text, err, want)
			}
			continue
		}
		sets, err := m.CPUs.On(eight(t), false)
		got := texts(sets)
		if m.Ordered {
			got = append(got, "ordered")
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %q, %v, want %s", text, got, err, want)
		}
	}
}

func FuzzWords(f *testing.F) {
	for _, s := range []string{"ppr:2:numa:PE=2", "socket:span,oversubscribe", "pe-list=0,1:ordered", "core:overload-allowed", "user:0+1,2", "rankfile:FILE=f"} {
		f.Add(s, "socket:2")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		defer cost.Watch(t, cost.Parser, len(a)+len(b))()
		if m, err := ParseMapBy(a); err == nil && (m.N < 0 || m.PE < 0 || m.Policy == "ppr" && m.N == 0 || m.Policy == "object" && m.Object == None) {
			t.Errorf("%q: %+v", a, m)
		}
		if r, err := ParseRankBy(a); err == nil && r.By == "" {
			t.Errorf("%q: %+v", a, r)
		}
		if target, err := ParseBindTo(a, Target{}); err == nil && target.List && target.To != None {
			t.Errorf("%q: %+v", a, target)
		}
		if h, err := ParseHydra(a, b); err == nil && h != nil && !h.RoundRobin && h.User == nil && (h.To.N < 1 || h.By.N < 1) {
			t.Errorf("%q %q: %+v", a, b, h)
		}
	})
}
