package journal

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mpiup/mpiup/test/cost"
)

func sample() *Journal {
	return &Journal{Run: strings.Repeat("ab", 8), Begun: time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC), Namespace: "mpiup-00", Universe: 6,
		Sites: []Site{
			{Name: "w0", Stated: "w0", Slots: 2, Given: true, CPUs: 4, Address: netip.MustParseAddrPort("10.0.0.7:16748")},
			{Name: "idle", Slots: 2},
			{Name: "w1", Slots: 2, Address: netip.MustParseAddrPort("[fd00::8]:16748")}},
		Hosts: []Host{
			{Site: 0, Session: strings.Repeat("01", 16), Agent: strings.Repeat("0a", 16), Meets: netip.MustParseAddr("10.0.0.7"), Version: "1"},
			{Site: 2, Session: strings.Repeat("02", 16), Agent: strings.Repeat("0b", 16)}},
		Ranks: []Rank{{Host: 0, CPUs: "0-1"}, {Host: 1}, {Host: 0, App: 1, Local: 1}}}
}

func TestRoundTrip(t *testing.T) {
	b, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Decode(b, 2)
	if err != nil {
		t.Fatal(err)
	}
	want := sample()
	want.Format = format
	if d := cmp.Diff(want, back, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }), cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Error(d)
	}
	p := back.Plan()
	if len(p.Hosts) != 2 || p.Hosts[1].Name != "w1" || len(p.Placements) != 3 || p.Placements[2].LocalRank != 1 || p.Placements[0].CPUs.String() != "0-1" {
		t.Errorf("plan %+v", p)
	}
}

func TestWhatMakesNoSense(t *testing.T) {
	for name, spoil := range map[string]func(j *Journal){
		"no run":               func(j *Journal) { j.Run = "" },
		"no host":              func(j *Journal) { j.Hosts = nil },
		"a host that is none":  func(j *Journal) { j.Sites[0].Name = "a b" },
		"a host twice":         func(j *Journal) { j.Sites[1].Name = "w0" },
		"a site that is none":  func(j *Journal) { j.Hosts[0].Site = 3 },
		"two sessions":         func(j *Journal) { j.Hosts[1].Site = 0 },
		"no address":           func(j *Journal) { j.Sites[0].Address = netip.AddrPort{} },
		"no session":           func(j *Journal) { j.Hosts[0].Session = "01" },
		"a rank beyond hosts":  func(j *Journal) { j.Ranks[0].Host = 2 },
		"a rank below hosts":   func(j *Journal) { j.Ranks[0].Host = -1 },
		"another program":      func(j *Journal) { j.Ranks[0].App = 2 },
		"a local rank twice":   func(j *Journal) { j.Ranks[2].Local = 0 },
		"CPUs that are none":   func(j *Journal) { j.Ranks[0].CPUs = "x" },
		"a host without ranks": func(j *Journal) { j.Ranks[1].Host, j.Ranks[1].Local = 0, 2 },
		"a namespace":          func(j *Journal) { j.Namespace = "a\nb" },
		"slots":                func(j *Journal) { j.Sites[0].Slots = -1 },
	} {
		j := sample()
		spoil(j)
		b, err := j.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Decode(b, 2); err == nil {
			t.Errorf("%s: read", name)
		}
	}
	b, _ := sample().Encode()
	for name, text := range map[string]string{
		"another format": strings.Replace(string(b), `"format":1`, `"format":2`, 1),
		"a field":        strings.Replace(string(b), `"format"`, `"extra":1,"format"`, 1),
		"two":            string(b) + string(b),
		"half":           string(b[:len(b)/2]),
		"too large":      string(b) + strings.Repeat(" ", MaxSize),
	} {
		if _, err := Decode([]byte(text), 2); err == nil {
			t.Errorf("%s: read", name)
		}
	}
}

func FuzzDecode(f *testing.F) {
	b, _ := sample().Encode()
	f.Add(b)
	f.Add([]byte(`{"format":1,"ranks":[{},{}],"hosts":[{}],"sites":[{}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, len(b))()
		j, err := Decode(b, 2)
		if err == nil {
			j.Plan()
		}
	})
}
