package member

import (
	"encoding/hex"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hashicorp/memberlist"
	"github.com/mpiup/mpiup/test/cost"
)

func TestMetaGolden(t *testing.T) {
	m := meta{1, Self{Protocol: 2, Slots: 300, Name: "w-0", Incarnation: "ab", Version: "v1", Digest: "d"}}
	const want = "01" + "01" + "02" + "ac02" + "03772d30" + "026162" + "027631" + "0164"
	if got := hex.EncodeToString(m.encode()); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	later := append(m.encode(), "a field of a later version"...)
	for _, b := range [][]byte{m.encode(), later} {
		got, err := decodeMeta(b)
		if err != nil || got != m {
			t.Errorf("%+v, %v", got, err)
		}
	}
}

func TestMetaFits(t *testing.T) {
	m := meta{1<<62 - 1, Self{
		Protocol: 1<<32 - 1, Slots: maxSlots, Name: strings.Repeat(strings.Repeat("n", 62)+".", maxName/63) + "n",
		Incarnation: strings.Repeat("i", maxIncarnation), Version: strings.Repeat("v", maxVersion), Digest: strings.Repeat("d", maxDigest),
	}}
	if err := m.check(); err != nil {
		t.Fatal(err)
	}
	if n := len(m.encode()); n > memberlist.MetaMaxSize {
		t.Errorf("%d bytes, %d fit", n, memberlist.MetaMaxSize)
	}
}

func FuzzMeta(f *testing.F) {
	f.Add(meta{1, Self{Name: "n", Incarnation: "i"}}.encode())
	f.Add([]byte{1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, len(b))()
		m, err := decodeMeta(b)
		if err != nil {
			return
		}
		again, err := decodeMeta(m.encode())
		if err != nil || again != m {
			t.Errorf("%+v is %+v, %v after a round trip", m, again, err)
		}
	})
}

func TestClaimGolden(t *testing.T) {
	b := appendClaim(nil, "l", claim{300, "ab", "pf"})
	if got := hex.EncodeToString(b); got != "016c"+"ac02"+"026162"+"027066" {
		t.Error(got)
	}
	b = appendClaim(b, "m", claim{1, "c", "p"})
	got := map[string]claim{}
	decodeClaims(b, func(n string, c claim) { got[n] = c })
	if d := cmp.Diff(map[string]claim{"l": {300, "ab", "pf"}, "m": {1, "c", "p"}}, got, cmp.AllowUnexported(claim{})); d != "" {
		t.Error(d)
	}
}

func FuzzClaims(f *testing.F) {
	f.Add(appendClaim(appendClaim(nil, "l", claim{3, "a", "p"}), "m", claim{1 << 40, "b", "q"}))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, len(b))()
		decodeClaims(b, func(n string, c claim) {
			if !c.valid(n) {
				t.Errorf("%q %+v", n, c)
			}
		})
	})
}

// said is what a launcher's signature is in tests.
func said(name string) string { return "signed by " + name }

func signedClaim(name string, c claim) bool { return c.proof == said(name) }

func one() int { return 1 }

func TestClaimsAreBoundedAndOrdered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newClaims(one, signedClaim)
		l := said("l")
		for _, c := range []claim{{2, "b", l}, {1, "z", l}, {2, "a", l}, {0, "x", l}, {maxNumber + 1, "x", l}, {3, "", l}, {3, "a b", l}, {9, "no", said("m")}, {9, "no", ""}} {
			s.merge("l", c)
		}
		for incarnation, want := range map[string]uint64{"a": 2, "b": 2, "z": 1, "x": 0, "no": 0} {
			if own, highest := s.numbers("l", incarnation); own.number != want || highest != 2 {
				t.Error(incarnation, own, highest)
			}
		}
		for n := range uint64(10) {
			s.merge("l", claim{10 + n, fmt.Sprint(n), l})
		}
		if own, highest := s.numbers("l", "b"); own.number != 0 || highest != 19 || len(s.byName["l"]) != maxPerID {
			t.Error(own, highest, s.byName["l"])
		}
		big := strings.Repeat("x", maxProof)
		s.verify = func(string, claim) bool { return true }
		for i := range 2 * maxClaims / maxProof {
			s.merge(fmt.Sprint("n", i), claim{1, "x", big})
			time.Sleep(time.Second / checksInSecond) // virtual
		}
		if s.bytes > maxClaims || len(s.encode()) > maxClaims || len(s.byName) < maxClaims/maxProof-8 {
			t.Error(s.bytes, len(s.encode()), len(s.byName))
		}
		s.merge("l", claim{20, "c", l})
		if own, _ := s.numbers("l", "c"); own.number != 20 {
			t.Error("a known name does not change when there is no room:", own)
		}
	})
}

// A peer that makes claims up costs the checking of a few, and nothing comes of it.
func TestMadeUpClaimsCostLittle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		checks := 0
		s := newClaims(one, func(string, claim) bool { checks++; return false })
		for i := range 100_000 {
			s.merge("l", claim{uint64(i) + 1, "x", "made up"})
		}
		if checks > checksAtOnce || len(s.byName) > 0 || s.queue.NumQueued() > 0 {
			t.Error(checks, len(s.byName), s.queue.NumQueued())
		}
		time.Sleep(time.Minute) // virtual
		s.verify = signedClaim
		s.merge("l", claim{1, "x", said("l")})
		if own, _ := s.numbers("l", "x"); own.number != 1 {
			t.Error("an honest claim is not taken later")
		}
	})
}

func TestDescribeRefuses(t *testing.T) {
	good := func() *memberlist.Node {
		return &memberlist.Node{Name: "inc.01234567", Addr: net.IP{10, 0, 0, 1}, Port: 7, PMin: 1, PMax: 5, PCur: 2,
			Meta: meta{0, Self{Name: "w", Incarnation: "inc"}}.encode()}
	}
	if m, err := describe(good()); err != nil || m.Addr.String() != "10.0.0.1:7" {
		t.Fatal(m.Addr, err)
	}
	for name, change := range map[string]func(*memberlist.Node){
		"a name that is a path":     func(n *memberlist.Node) { n.Meta = meta{0, Self{Name: "../x", Incarnation: "inc"}}.encode() },
		"a name with a slash":       func(n *memberlist.Node) { n.Meta = meta{0, Self{Name: "w/2", Incarnation: "inc"}}.encode() },
		"no metadata":               func(n *memberlist.Node) { n.Meta = nil },
		"other incarnation's id":    func(n *memberlist.Node) { n.Name = "other.01234567" },
		"long id":                   func(n *memberlist.Node) { n.Name += "x" },
		"id that does not print":    func(n *memberlist.Node) { n.Name = "inc.0123456\n" },
		"no address":                func(n *memberlist.Node) { n.Addr = nil },
		"half an address":           func(n *memberlist.Node) { n.Addr = net.IP{1, 2} },
		"unspecified address":       func(n *memberlist.Node) { n.Addr = net.IPv4zero },
		"multicast address":         func(n *memberlist.Node) { n.Addr = net.IPv4(224, 0, 0, 1) },
		"no port":                   func(n *memberlist.Node) { n.Port = 0 },
		"protocol that ends merges": func(n *memberlist.Node) { n.PMin = 5 },
		"delegate protocol":         func(n *memberlist.Node) { n.DMin = 1 },
		"escape sequence in name":   func(n *memberlist.Node) { n.Meta = meta{0, Self{Name: "\x1b[2J", Incarnation: "inc"}}.encode() },
	} {
		n := good()
		change(n)
		if m, err := describe(n); err == nil {
			t.Errorf("%s: taken: %+v", name, m)
		}
	}
}

// suspectMsg is a suspect message as memberlist encodes it, msgpack of the three fields.
func suspectMsg(kind, inc byte, node, from string) []byte {
	b := append([]byte{kind, 0x83}, "\xa4From"...)
	b = append(append(b, 0xa0|byte(len(from))), from...)
	b = append(append(b, "\xabIncarnation"...), inc)
	b = append(b, "\xa4Node"...)
	return append(append(b, 0xa0|byte(len(node))), node...)
}

func TestEachFindsMessages(t *testing.T) {
	s, d := suspectMsg(SuspectType, 4, "x", "y"), suspectMsg(DeadType, 5, "x", "x")
	compound := []byte{7, 3, 0, byte(len(s)), 0, 2, 0, byte(len(d))}
	compound = append(append(append(compound, s...), 0, 0), d...)
	for name, packet := range map[string][]byte{
		"compound": compound, "with checksum": append([]byte{12, 1, 2, 3, 4}, compound...),
	} {
		var got []string
		each(packet, func(kind byte, a accusation, _ []byte) { got = append(got, fmt.Sprint(kind, a)) })
		if d := cmp.Diff([]string{"3 {4 x y}", "5 {5 x x}"}, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
}

func FuzzEach(f *testing.F) {
	f.Add(suspectMsg(SuspectType, 4, "x", "y"))
	f.Add([]byte{7, 255, 0, 1})
	f.Add([]byte("\x03\x83\xa4Fryo\xdf;آآآ\xa2\xd8آ\xd8\xd8\xcfb\xf7\xad\x94\xc1\xfb\x84\fɀ\x00\x00\x00\xff")) // an extension of 2 GiB
	f.Fuzz(func(t *testing.T, packet []byte) {
		defer cost.Watch(t, cost.Parser, len(packet))()
		each(packet, func(kind byte, _ accusation, msg []byte) {
			if msg[0] != kind {
				t.Error(kind, msg)
			}
		})
	})
}

func TestVisible(t *testing.T) {
	e := func(name, inc, addr string, born uint64, change ...func(*entry)) *entry {
		out := &entry{id: inc + "." + addr, meta: meta{born, Self{Name: name, Incarnation: inc, Addr: parseAddrs([]string{addr})[0]}}}
		for _, c := range change {
			c(out)
		}
		return out
	}
	left := func(e *entry) { e.left = true }
	tests := []struct {
		name    string
		entries []*entry
		want    []string
	}{
		{"sorted", []*entry{e("b", "i", "10.0.0.1:1", 1), e("a", "z", "10.0.0.2:1", 1), e("a", "y", "10.0.0.3:1", 1)}, []string{"a y alive", "a z alive", "b i alive"}},
		{"another process of one container", []*entry{e("a", "i", "10.0.0.1:1", 1), e("a", "i", "10.0.0.1:2", 2)}, []string{"a i alive"}},
		{"restarted in its pod", []*entry{e("a", "i", "10.0.0.1:1", 1), e("a", "j", "10.0.0.1:1", 2)}, []string{"a j alive"}},
		{"replaced", []*entry{e("a", "i", "10.0.0.1:1", 9, func(e *entry) { e.replaced = true }), e("a", "j", "10.0.0.2:1", 2)}, []string{"a j alive"}},
		{"dropped", []*entry{e("a", "i", "10.0.0.1:1", 9, func(e *entry) { e.suspect, e.dropped = true, true })}, nil},
		{"left", []*entry{e("a", "i", "10.0.0.1:1", 1, left)}, []string{"a i left"}},
		{"left and came back", []*entry{e("a", "i", "10.0.0.1:1", 9, left), e("a", "j", "10.0.0.2:1", 2)}, []string{"a j alive"}},
		{"suspect", []*entry{e("a", "i", "10.0.0.1:1", 1, func(e *entry) { e.suspect = true })}, []string{"a i suspect"}},
		{"siblings", []*entry{e("a", "i", "10.0.0.1:1", 1), e("a", "j", "10.0.0.1:2", 2)}, []string{"a i alive", "a j alive"}},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, m := range visible(slices.Values(tc.entries)) {
				got = append(got, fmt.Sprint(m.Name, " ", m.Incarnation, " ", m.State))
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Error(d)
			}
		})
	}
}
