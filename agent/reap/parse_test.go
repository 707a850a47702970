package reap

import (
	"fmt"
	"github.com/mpiup/mpiup/test/cost"
	"os"
	"reflect"
	"strings"
	"testing"
)

const statLine = `4711 (a) b (c) S 12 34 56 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 1 0 998877 1000 20 18446744073709551615 94000 95000 140000 0 0 0 0 0 0 0 0 0 17 3 0 0 0 0 0 96000 97000 98000 1 2 3 4 0
`

func TestStatIsReadFromTheLastParenthesis(t *testing.T) {
	got, err := parseStat([]byte(statLine))
	want := stat{pid: 4711, ppid: 12, pgrp: 34, sid: 56, state: 'S', start: 998877, image: [2]uint64{94000, 4}}
	if err != nil || got != want {
		t.Errorf("got %+v %v, want %+v", got, err, want)
	}
	self, err := procfs{root: "/proc"}.stat(os.Getpid())
	if err != nil || self.pid != os.Getpid() || self.ppid != os.Getppid() || self.start == 0 || self.unsettled {
		t.Errorf("self %+v %v", self, err)
	}
	for _, bad := range []string{"", "1", "1 (x", "1 (x) S 1", strings.Replace(statLine, "998877", "x", 1), strings.Replace(statLine, " 12 ", " -12 ", 1)} {
		if got, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, got)
		}
	}
}

func TestProcOfAnotherNamespaceIsNotUsed(t *testing.T) {
	root := t.TempDir()
	if err := os.Symlink("1", root+"/self"); err != nil {
		t.Fatal(err)
	}
	if err := (procfs{root: root}).verify(); err == nil || !strings.Contains(err.Error(), "another PID namespace") {
		t.Errorf("got %v", err)
	}
	s := New(Config{Log: quiet()})
	s.proc.root = root
	if found, sure := s.search(everything()).look(); len(found) != 0 || !sure {
		t.Errorf("found %v", found)
	}
}

func TestImages(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	head, err := readHead(self)
	if err != nil {
		t.Fatal(err)
	}
	if img := readImage(head); img.kind != imageELF || foreign(img.arch) {
		t.Errorf("this test: %+v", img)
	}
	for text, want := range map[string]image{
		"":                               {kind: imageEmpty},
		"hello":                          {},
		"#!/bin/sh\nx":                   {kind: imageScript, interp: "/bin/sh"},
		"#! \t/usr/bin/env python3\n":    {kind: imageScript, interp: "/usr/bin/env"},
		"#!":                             {kind: imageScript},
		"\x7fELF":                        {kind: imageELF},
		withLoader("/lib64/ld-linux.so"): {kind: imageELF, arch: readImage(head).arch, interp: "/lib64/ld-linux.so"},
		elf32BE():                        {kind: imageELF, arch: "ppc", interp: "/lib/ld.so.1"},
	} {
		if got := readImage([]byte(text)); !reflect.DeepEqual(got, want) {
			t.Errorf("%.20q: got %+v, want %+v", text, got, want)
		}
	}
}

// elf32BE is a big-endian 32-bit program with a loader.
func elf32BE() string {
	h := make([]byte, 52+32)
	copy(h, "\x7fELF\x01\x02\x01")
	h[19], h[31], h[43], h[45] = 20, 52, 32, 1
	h[55], h[59], h[71] = ptInterp, 84, 13
	return string(h) + "/lib/ld.so.1\x00"
}

func TestSessionIsFoundInAnEnvironment(t *testing.T) {
	for env, want := range map[string]string{
		"":                                   "",
		"A=1\x00MPIUP_SESSION=ab\x00B=2\x00": "ab",
		"XMPIUP_SESSION=ab\x00":              "",
		"MPIUP_SESSION=ab":                   "ab",
		"MPIUP_SESSION=" + strings.Repeat("x", maxSession+1): "",
	} {
		if got := sessionOf([]byte(env)); got != want {
			t.Errorf("%q: %q, want %q", env, got, want)
		}
	}
}

func FuzzParseStat(f *testing.F) {
	f.Add([]byte(statLine))
	f.Add([]byte("1 () S"))
	f.Add([]byte("0()\xb0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0"))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, len(b))()
		s, err := parseStat(b)
		if err != nil {
			return
		}
		again := fmt.Sprintf("%d (x) %c %d %d %d 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 %d", s.pid, s.state, s.ppid, s.pgrp, s.sid, s.start)
		s.image, s.unsettled = [2]uint64{}, false // which a short line does not have
		if got, err := parseStat([]byte(again)); err != nil || got != s {
			t.Errorf("%q: %+v %v, want %+v", again, got, err, s)
		}
	})
}

func FuzzReadImage(f *testing.F) {
	for _, s := range []string{"", "#!/bin/sh\n", withLoader("/ld"), elf32BE(), foreignELF()} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, len(b))()
		if img := readImage(b); len(img.interp) > len(b) {
			t.Errorf("%+v", img)
		}
	})
}

func FuzzReadLedger(f *testing.F) {
	f.Add(record{session: "aa"}.encode())
	f.Add(append(record{pid: 7, start: 8}.encode(), record{session: "b", pid: 9}.encode()...))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, len(b))()
		for _, r := range readLedger(b) {
			if got := readLedger(r.encode()); len(got) != 1 || got[0] != r {
				// Only numbers spelled long can make a record that does not fit again.
				if len(fmt.Sprint(r.pid, r.start, r.session))+12 < slotBytes {
					t.Errorf("%+v came back as %+v", r, got)
				}
			}
		}
	})
}

func FuzzSessionOf(f *testing.F) {
	f.Add([]byte("A=1\x00MPIUP_SESSION=ab\x00"))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, len(b))()
		if s := sessionOf(b); len(s) > maxSession || strings.ContainsRune(s, 0) {
			t.Errorf("%q", s)
		}
	})
}

func FuzzIgnoredSignals(f *testing.F) {
	f.Add("SigIgn:\t0000000000001003\n")
	f.Fuzz(func(t *testing.T, s string) {
		defer cost.Watch(t, cost.Parser, len(s))()
		for _, n := range ignoredSignals(s) {
			if n < 1 || n > 64 {
				t.Errorf("%d", n)
			}
		}
	})
}

func FuzzDroppable(f *testing.F) {
	f.Add("00400000-00452000 r-xp 00000000 08:02 1 /usr/bin/mpiup\nAnonymous: 0 kB\n")
	f.Fuzz(func(t *testing.T, s string) {
		defer cost.Watch(t, cost.Parser, len(s))()
		for _, m := range droppable(s) {
			if m[1] == 0 {
				t.Errorf("%#x", m)
			}
		}
	})
}
