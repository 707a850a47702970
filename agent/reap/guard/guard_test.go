package guard

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/cost"
)

func FuzzReadLedger(f *testing.F) {
	f.Add(Record{Session: "aa"}.encode())
	f.Add(append(Record{PID: 7, Start: 8}.encode(), Record{Session: "b", PID: 9}.encode()...))
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Parser, len(b))()
		for _, r := range read(b) {
			if got := read(r.encode()); len(got) != 1 || got[0] != r {
				// Only numbers spelled long can make a record that does not fit again.
				if len(fmt.Sprint(r.PID, r.Start, r.Session))+12 < slotBytes {
					t.Errorf("%+v came back as %+v", r, got)
				}
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
func TestOnlyReadOnlyFileMappingsAreDropped(t *testing.T) {
	for line, ok := range map[string]bool{
		"00400000-00452000 r-xp 00000000 08:02 173521 /usr/bin/mpiup\n": true,
		"00651000-00652000 r--p 00051000 08:02 173521 /usr/bin/mpiup\n": true,
		"00652000-00655000 rw-p 00052000 08:02 173521 /usr/bin/mpiup\n": false,
		"00652000-00655000 r--s 00052000 08:02 173521 /usr/bin/mpiup\n": false,
		"7ffd0000-7ffd1000 r-xp 00000000 00:00 0 [vdso]\n":              false,
		"00652000-00655000 r--p 00000000 00:00 0\n":                     false,
		"x-y r--p 00000000 08:02 1 /x\n":                                false,
		"":                                                              false,
	} {
		if _, _, got := programText(line); got != ok {
			t.Errorf("%q: %v", line, got)
		}
	}
	if start, size, _ := programText("00400000-00452000 r-xp 00000000 08:02 1 /x"); start != 0x400000 || size != 0x52000 {
		t.Errorf("%#x %#x", start, size)
	}
}

func TestMappingsThatTheLoaderWroteAreKept(t *testing.T) {
	const smaps = `00400000-00452000 r-xp 00000000 08:02 1 /usr/bin/mpiup
Rss:                 328 kB
Anonymous:             0 kB
00452000-00453000 r--p 00052000 08:02 1 /usr/bin/mpiup
Anonymous:             4 kB
00453000-00454000 rw-p 00053000 08:02 1 /usr/bin/mpiup
Anonymous:             0 kB
`
	if got := droppable(smaps); !slices.Equal(got, [][2]uintptr{{0x400000, 0x52000}}) {
		t.Errorf("%#x", got)
	}
}

func TestLedgerKeepsWhatLives(t *testing.T) {
	l, err := NewLedger()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	a := l.Add(Record{Session: "aa"})
	b := l.Add(Record{Session: "aa", PID: 10, Start: 99})
	c := l.Add(Record{PID: 11, Start: 100})
	l.Remove(b)
	if d := l.Add(Record{Session: "bb", PID: 12, Start: 101}); d != b || a == c {
		t.Errorf("slots %d %d %d %d", a, b, c, d)
	}
	raw := make([]byte, 1024)
	n, _ := l.File.ReadAt(raw, 0)
	want := []Record{{Session: "aa"}, {Session: "bb", PID: 12, Start: 101}, {PID: 11, Start: 100}}
	if got := read(raw[:n]); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	var none *Ledger
	none.Remove(none.Add(Record{Session: "x"}))
	none.Close()
}

func TestGuardRemovesSessionDirs(t *testing.T) {
	l, err := NewLedger()
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dirs := filepath.Join(t.TempDir(), "of mpiup")
	for _, name := range []string{"aa", "bb", "stranger"} {
		if err := os.MkdirAll(filepath.Join(SessionDir(dirs, name), "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	l.Add(Record{Dirs: dirs})
	l.Add(Record{Dirs: "/" + strings.Repeat("x", slotBytes)}) // does not fit, and is no record
	l.Add(Record{Session: "aa"})
	l.Add(Record{Session: "bb", PID: 1 << 22, Start: 1})
	l.Add(Record{Session: "../session-stranger"})
	raw := make([]byte, 5*slotBytes)
	n, _ := l.File.ReadAt(raw, 0)
	records := read(raw[:n])
	if len(records) != 4 {
		t.Errorf("read %+v", records)
	}
	removeDirs(records)
	left, err := filepath.Glob(filepath.Join(dirs, "*"))
	if err != nil || !slices.Equal(left, []string{SessionDir(dirs, "stranger")}) {
		t.Errorf("left are %q, %v", left, err)
	}
}
