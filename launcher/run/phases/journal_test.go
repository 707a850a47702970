package phases

import (
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/run/model"
	"github.com/mpiup/mpiup/test/cost"
)

func sample() *Journal {
	return &Journal{Run: strings.Repeat("ab", 8), Begun: time.Date(2026, 11, 23, 10, 0, 0, 0, time.UTC), Namespace: "mpiup-00",
		Sites: []model.Site{
			{Host: job.Host{Name: "w0", Slots: 2, SlotsGiven: true, CPUs: 4}, Stated: "w0", Address: netip.MustParseAddrPort("10.0.0.7:16748")},
			{Host: job.Host{Name: "idle", Slots: 2}},
			{Host: job.Host{Name: "w1", Slots: 2}, Address: netip.MustParseAddrPort("[fd00::8]:16748")}},
		Hosts: []Session{
			{Site: 0, Session: strings.Repeat("01", 16), Agent: strings.Repeat("0a", 16), Meets: netip.MustParseAddr("10.0.0.7"), Version: "1"},
			{Site: 2, Session: strings.Repeat("02", 16), Agent: strings.Repeat("0b", 16)}},
		Plan: &job.Plan{Universe: 6, Hosts: []job.Host{{Name: "w0", Slots: 2, SlotsGiven: true, CPUs: 4}, {Name: "w1", Slots: 2}},
			Placements: []job.Placement{{CPUs: idset.Range(0, 1)}, {Rank: 1, Host: 1}, {Rank: 2, App: 1, LocalRank: 1}}}}
}

func TestJournal(t *testing.T) {
	b, err := sample().Encode()
	if err != nil {
		t.Fatal(err)
	}
	const old = `{"format":1,"run":"abababababababab","begun":"2026-11-23T10:00:00Z","namespace":"mpiup-00","universe":6,"sites":[` +
		`{"name":"w0","stated":"w0","slots":2,"given":true,"cpus":4,"address":"10.0.0.7:16748"},{"name":"idle","slots":2},{"name":"w1","slots":2,"address":"[fd00::8]:16748"}],` +
		`"hosts":[{"site":0,"session":"01010101010101010101010101010101","agent":"0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a","meets":"10.0.0.7","version":"1"},` +
		`{"site":2,"session":"02020202020202020202020202020202","agent":"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b"}],"ranks":[{"h":0,"c":"0-1"},{"h":1},{"h":0,"a":1,"l":1}]}`
	for name, text := range map[string]string{"as it is written": string(b), "as a launcher wrote it that was older": old} {
		back, err := Decode([]byte(text), 2)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want := sample()
		want.Format = format
		if d := cmp.Diff(want, back, cmp.Comparer(func(a, b netip.AddrPort) bool { return a == b }), cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
			cmp.Comparer(func(a, b idset.Set) bool { return a.Equal(b) })); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	if len(b) != len(old) { // who is older reads it, too
		t.Errorf("it is written as %s", b)
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
		"a rank beyond hosts":  func(j *Journal) { j.Plan.Placements[0].Host = 2 },
		"a rank below hosts":   func(j *Journal) { j.Plan.Placements[0].Host = -1 },
		"another program":      func(j *Journal) { j.Plan.Placements[0].App = 2 },
		"a local rank twice":   func(j *Journal) { j.Plan.Placements[2].LocalRank = 0 },
		"a host without ranks": func(j *Journal) { j.Plan.Placements[1].Host, j.Plan.Placements[1].LocalRank = 0, 2 },
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
		"CPUs":           strings.Replace(string(b), `"c":"0-1"`, `"c":"x"`, 1),
		"too many CPUs":  strings.Replace(string(b), `"c":"0-1"`, `"c":"1000000"`, 1),
		"half":           string(b[:len(b)/2]),
		"too large":      string(b) + strings.Repeat(" ", MaxJournal),
	} {
		if _, err := Decode([]byte(text), 2); err == nil {
			t.Errorf("%s: read", name)
		}
	}
}

func FuzzJournal(f *testing.F) {
	b, _ := sample().Encode()
	f.Add(b)
	f.Add([]byte(`{"format":1,"ranks":[{},{}],"hosts":[{}],"sites":[{}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, len(b))()
		_, _ = Decode(b, 2)
	})
}
