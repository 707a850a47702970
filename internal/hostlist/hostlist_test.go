package hostlist

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mpiup/mpiup/test/cost"
)

func TestParseList(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want []Entry
	}{
		{"w0", []Entry{{Name: "w0"}}},
		{"w0:4", []Entry{{Name: "w0", Slots: 4, Given: true}}},
		{"w0, w1:2 ,w2", []Entry{{Name: "w0"}, {Name: "w1", Slots: 2, Given: true}, {Name: "w2"}}},
		{"pi-worker-0.pi.ns.svc:2", []Entry{{Name: "pi-worker-0.pi.ns.svc", Slots: 2, Given: true}}},
		{"10.0.0.1:3,[fd00::7]:2,[::1]", []Entry{{Name: "10.0.0.1", Slots: 3, Given: true},
			{Name: "fd00::7", Slots: 2, Given: true}, {Name: "::1"}}},
		{"[fe80::1%eth0]:1", []Entry{{Name: "fe80::1%eth0", Slots: 1, Given: true}}},
		{"w0.ns.svc.", []Entry{{Name: "w0.ns.svc."}}},
		{"my_host", []Entry{{Name: "my_host"}}},
	} {
		got, err := ParseList(tt.in)
		if err != nil {
			t.Errorf("%s: %v", tt.in, err)
		} else if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%s: %s", tt.in, d)
		}
	}
}

func TestParseListRefuses(t *testing.T) {
	long := strings.Repeat("a", 64)
	for _, tt := range []struct{ in, want string }{
		{"", "the host list is empty; write host[:slots],host[:slots]"},
		{"w0,,w1", `host list "w0,,w1": a name is missing beside a comma`},
		{"w0,", `host list "w0,": a name is missing beside a comma`},
		{":4", `a host name is missing before ":"`},
		{"w0:", "host w0: the number of slots is missing"},
		{"w0:0", "host w0: 0 slots; a host has at least 1, so leave out a host that is to run nothing"},
		{"w0:-2", "host w0: -2 slots; a host has at least 1, so leave out a host that is to run nothing"},
		{"w0:*", `host w0: slots "*": leave the number out to let the host's agent count`},
		{"w0:auto", `host w0: slots "auto": leave the number out to let the host's agent count`},
		{"w0:x", `host w0: slots "x" is not a number from 1 to 65536`},
		{"w0:+1", `host w0: slots "+1" is not a number from 1 to 65536`},
		{"w0:99999", "host w0: 99999 slots are more than 65536"},
		{"w0:27411", "host w0: 27411 after the colon is a number of slots, and no host starts more than 4096 ranks; ports are not named, launchers find the agents' own"},
		{"w0:2:3", `host w0: slots "2:3" is not a number from 1 to 65536`},
		{"fd00::7", `"fd00::7": write an IPv6 address in brackets, [fd00::7]`},
		{"[fd00::7", `"[fd00::7": brackets hold an IPv6 address, [fd00::7]:4`},
		{"[fe80::1%a b]", `"[fe80::1%a b]": brackets hold an IPv6 address, [fd00::7]:4`},
		{"[w0]", `"[w0]": brackets hold an IPv6 address, [fd00::7]:4`},
		{"[::1]4", `"[::1]4": only :slots may follow the bracket`},
		{"root@w0", `"root@w0": no user name is needed to reach an agent; write the host alone`},
		{"+n1", `"+n1": Open MPI's relative and excluded hosts are not known here; name the hosts wanted`},
		{"w 0", `"w 0" is not a host name: " " is no letter (a to z), digit, hyphen or underscore`},
		{"w0;id", `"w0;id" is not a host name: ";" is no letter (a to z), digit, hyphen or underscore`},
		{"wörk", `"wörk" is not a host name: "ö" is no letter (a to z), digit, hyphen or underscore`},
		{"-w0", `"-w0" is not a host name: between dots stand 1 to 63 characters, the first no hyphen`},
		{"a..b", `"a..b" is not a host name: between dots stand 1 to 63 characters, the first no hyphen`},
		{long, `"` + long[:40] + `"... is not a host name: between dots stand 1 to 63 characters, the first no hyphen`},
		{strings.Repeat("a.", 200) + "a", `host name "` + strings.Repeat("a.", 20) + `"... has 401 characters, more than 253`},
		{"w0,w1,w0", "host w0 is named twice; write it once with its slots, w0:2"},
		{"w0:2,W0.:3", "host W0. is named twice; write it once with its slots, W0.:5"},
		{"[::1],[::1]", "host ::1 is named twice; write it once with its slots, [::1]:2"},
		{strings.Repeat("x", MaxFile+1), "host list of 16777217 bytes is longer than 16777216"},
	} {
		got, err := ParseList(tt.in)
		if err == nil || err.Error() != tt.want || got != nil {
			t.Errorf("%.60q: %v, %v\nwant %s", tt.in, got, err, tt.want)
		}
	}
}

func TestParseFile(t *testing.T) {
	file := "# MPI Operator, Open MPI\r\n" +
		"w0.pi.ns.svc slots=4\r\n" +
		"\n" +
		"   w1.pi.ns.svc   slots = 2 max_slots=8  // a comment\n" +
		"w2.pi.ns.svc:3 # MPICH\n" +
		"//nothing\n" +
		"[fd00::7]:2\n" +
		"w3\tmax-slots=2 SLOTS=1\n" +
		"w4"
	want := []Entry{
		{Name: "w0.pi.ns.svc", Slots: 4, Given: true, Line: 2},
		{Name: "w1.pi.ns.svc", Slots: 2, Given: true, Line: 4},
		{Name: "w2.pi.ns.svc", Slots: 3, Given: true, Line: 5},
		{Name: "fd00::7", Slots: 2, Given: true, Line: 7},
		{Name: "w3", Slots: 1, Given: true, Line: 8},
		{Name: "w4", Line: 9},
	}
	for i := range want {
		want[i].File = "hf"
	}
	got, err := ParseFile(file, "hf", Own)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func TestParseFileRefuses(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", "hostfile hf names no host"},
		{"# only this\n", "hostfile hf names no host"},
		{"w0\n\nw1 slots=0\n", "hostfile hf line 3: host w1: 0 slots; a host has at least 1, so leave out a host that is to run nothing"},
		{"w0 slots=-1", "hostfile hf line 1: host w0: -1 slots; a host has at least 1, so leave out a host that is to run nothing"},
		{"w0 slots=", "hostfile hf line 1: host w0: the number of slots is missing"},
		{"w0 4", `hostfile hf line 1: "4" after host w0 is not known; a line is "host", "host slots=N" or "host:N"`},
		{"w0 sluts=4", `hostfile hf line 1: host w0: "sluts=" is not known; write slots=N`},
		{"w0:2 slots=4", "hostfile hf line 1: host w0: slots are given twice"},
		{"w0 slots=4 max_slots=2", "hostfile hf line 1: host w0: slots=4 is more than max_slots=2"},
		{"w0\nw1 slots=2\nw0 slots=3\n", `hostfile hf line 3: host w0 is on line 1 already; write it once with its slots, "w0 slots=4"`},
		{"w0\x00", `hostfile hf line 1: "w0\x00" is not a host name: "\x00" is no letter (a to z), digit, hyphen or underscore`},
		{"slots=4", `hostfile hf line 1: "slots=4" is not a host name: "=" is no letter (a to z), digit, hyphen or underscore`},
		{"w0\n" + strings.Repeat("x", maxLine+1), "hostfile hf line 2: longer than 65536 bytes; is this a hostfile?"},
	} {
		got, err := ParseFile(tt.in, "hf", Own)
		if err == nil || err.Error() != tt.want || got != nil {
			t.Errorf("%.60q: %v, %v\nwant %s", tt.in, got, err, tt.want)
		}
	}
}

func TestReadFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "hosts")
	if err := os.WriteFile(path, []byte("w0 slots=2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadFile(path, Own); err != nil || len(got) != 1 || got[0].File != path {
		t.Error(got, err)
	}
	missing := filepath.Join(dir, "none")
	_, err := ReadFile(missing, Own)
	want := "hostfile " + missing + ": no such file or directory; name a readable file, or the hosts with --host"
	if err == nil || err.Error() != want || !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	large := filepath.Join(dir, "large")
	if err := os.WriteFile(large, bytes.Repeat([]byte("# comment\n"), MaxFile/10+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err = ReadFile(large, Own); err == nil || err.Error() != "hostfile "+large+": larger than 16777216 bytes; is this a hostfile?" {
		t.Error(err)
	}
	if _, err = ReadFile("/proc/self/mem", Own); err == nil || err.Error() != "hostfile /proc/self/mem: input/output error" { // no page is at 0
		t.Error(err)
	}
	if _, err = ReadFile(dir, Own); err == nil || err.Error() != "hostfile "+dir+": is a directory" {
		t.Error(err)
	}
}

// mpirun --hostfile <(list-hosts) is a pipe, into which a script writes as it goes.
func TestReadFileOfAPipe(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	written := make(chan error, 1)
	go func() {
		defer w.Close()
		for _, b := range []byte("w0 slots=2\nw1\n") {
			if _, err := w.Write([]byte{b}); err != nil {
				written <- err
				return
			}
		}
		written <- nil
	}()
	got, err := ReadFile(fmt.Sprintf("/dev/fd/%d", r.Fd()), Own)
	if err != nil || text(got) != "w0:2 w1" {
		t.Error(text(got), err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

func FuzzParseList(f *testing.F) {
	for _, s := range []string{"w0,w1:4", "[::1]:2", "w0:*", "a,a", ":", "[", "w[0-3,7]:2", "r[01-02]n[3]", "1.2.3.4:5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		defer cost.Watch(t, rangeCost, len(s))()
		entries, err := ParseList(s)
		if err != nil {
			return
		}
		checkEntries(t, entries)
		var items []string
		for _, e := range entries { // what was read can be written and read again
			item := inList(e.Name, max(e.Slots, 1))
			if !e.Given {
				item = strings.TrimSuffix(item, ":1")
			}
			items = append(items, item)
		}
		back, err := ParseList(strings.Join(items, ","))
		if err != nil || !cmp.Equal(back, entries) {
			t.Fatalf("%q: %v, %v", items, back, err)
		}
	})
}

func FuzzParseFile(f *testing.F) {
	for _, s := range []string{"w0 slots=4\n", "w0:2\r\n#x\n", "w0 max_slots=2", "w0 slots = 4 // x", "a\na\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		defer cost.Watch(t, rangeCost, len(s))()
		if entries, err := ParseFile(s, "f", Own); err == nil {
			checkEntries(t, entries)
		} else if !strings.HasPrefix(err.Error(), "hostfile f") {
			t.Fatalf("%q: %v", s, err)
		}
	})
}

func checkEntries(t *testing.T, entries []Entry) {
	t.Helper()
	for _, e := range entries {
		if e.Name == "" || e.Given != (e.Slots > 0) || e.Slots > MaxSlots || strings.ContainsAny(e.Name, " ,/\n[]") {
			t.Fatalf("%+v", e)
		}
	}
	if len(entries) == 0 || CheckDistinct(entries) != nil {
		t.Fatalf("%+v", entries)
	}
}
