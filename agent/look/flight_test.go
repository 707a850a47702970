package look

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/deadmount"
)

func flightDump(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "flight", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestParseRecord(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"gloo-2.15-rank_0", `0 default_pg "" 4: [4 gloo:all_reduce [5] Float true ]; 1  "" 1: [1 gloo:all_reduce [3] Float true ]`},
		{"gloo-2.15-rank_2", `0 default_pg "" 3: [3 gloo:all_reduce [8, 2] Float true ]`},
		{"nccl-2.4-rank_0", `0 default_pg "0-3" 7: [6 nccl:all_reduce [512, 8] Float true train.py:31 step] [7 nccl:all_reduce [512, 8] Float false train.py:31 step]`},
		{"nccl-2.4-rank_2", `0 default_pg "0-3" 6: [6 nccl:all_reduce [512, 8] Float true train.py:31 step]`},
		{"python-4", `0 default_pg "0-3" 7: [6 nccl:all_reduce [512, 8] Float true train.py:31 step] [7 nccl:all_reduce [512, 8] Float false train.py:31 step]`},
	} {
		r, err := parseRecord(0, 64, flightDump(t, c.file))
		if err != nil {
			t.Fatal(err)
		}
		var groups []string
		for _, g := range r.Groups {
			text := fmt.Sprintf("%s %s %q %d:", g.Name, g.What, g.Ranks, g.Last)
			for _, o := range g.Ops {
				text += fmt.Sprintf(" [%d %s %s %v %s]", o.Seq, o.Name, o.Shape, o.Done, o.Where)
			}
			groups = append(groups, text)
		}
		if got := strings.Join(groups, "; "); got != c.want {
			t.Errorf("%s is\n%s, want\n%s", c.file, got, c.want)
		}
	}
	for _, bad := range []string{"", "N.", "}.", "](."} {
		if _, err := parseRecord(0, 64, []byte(bad)); err == nil {
			t.Errorf("%q is a dump", bad)
		}
	}
}

func FuzzRecord(f *testing.F) {
	for _, name := range []string{"gloo-2.15-rank_0", "nccl-2.4-rank_0"} {
		f.Add(flightDump(f, name))
	}
	for _, in := range bombs() {
		if len(in) < 64<<10 {
			f.Add([]byte(in))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		defer cost.Watch(t, cost.Parser, len(in))()
		r, err := parseRecord(1, 64, in)
		if err != nil {
			return
		}
		if len(r.Groups) > maxGroups {
			t.Errorf("%d groups", len(r.Groups))
		}
		for _, g := range r.Groups {
			if len(g.Ops) > maxOpen+1 {
				t.Errorf("%d operations", len(g.Ops))
			}
		}
	})
}

// bombs are dumps that make much of few bytes: what is noted once is named many times.
func bombs() map[string]string {
	entries := func(head, each string, n int) string {
		return "}(\x8c\x07entries(" + head + strings.Repeat(each, n) + "lu."
	}
	const seq = "\x8c\x06seq_idK\x01"
	wide := func(n int) string { return "(" + strings.Repeat("K\x00", n) + "l" }
	long := func(text string) string {
		return "X" + string(binary.LittleEndian.AppendUint32(nil, uint32(len(text)))) + text
	}
	frames := func(file string) string { return "\x8c\x06frames(}(\x8c\x08filename" + file + "u" + "l" }
	group := func(n int) string { // of one more name each
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%sK\x07h\x01", long(fmt.Sprint(i)))
		}
		return b.String()
	}
	nested := wide(1000) + "q\x01"
	for range 6 {
		nested += "(" + strings.Repeat("h\x01", 1000) + "lq\x01"
	}
	return map[string]string{
		"sizes that are lists of lists":  entries("", "}("+seq+"\x8c\x0binput_sizes(("+nested+"llu", 1),
		"sizes that are noted":           entries("}("+seq+"\x8c\x0binput_sizes(("+wide(40_000)+"q\x01"+strings.Repeat("h\x01", 7)+"llu"+"q\x02", "h\x02", 20_000),
		"types that are lists":           entries("", "}("+seq+"\x8c\x0binput_sizes(]l\x8c\x0cinput_dtypes("+wide(40_000)+"lu", 2),
		"a path without end":             entries("}("+seq+frames(long(strings.Repeat("/torc", 200_000)))+"uq\x02", "h\x02", 20_000),
		"names without end":              entries("}("+seq+"\x8c\x0eprofiling_name"+long(strings.Repeat("\x1b", 1<<20))+"uq\x02", "h\x02", 20_000),
		"members named by many groups":   "}(\x8c\x07entries]\x8c\x09pg_config}(" + long("x") + "}(\x8c\x05ranks" + long(strings.Repeat("1,", 1<<19)) + "uq\x01" + strings.ReplaceAll(group(4000), "K\x07", "") + "uu.",
		"members of more groups than go": "}(\x8c\x07entries]\x8c\x09pg_config}(" + long("x") + "}(\x8c\x05ranks" + long(strings.Repeat("1,", 1<<10)) + "uq\x01" + strings.ReplaceAll(group(40_000), "K\x07", "") + "uu.",
		"dictionaries":                   entries("", "}", 200_000),
		"notes":                          entries("", "N\x94", 100_000),
	}
}

// What a dump costs is bounded by its size, whatever it makes of it: a rank writes it, and its end waits for the agent to read it.
func TestDumpsThatCost(t *testing.T) {
	for name, in := range bombs() {
		begun := time.Now()
		cost.AtMost(t, cost.Bound{Fixed: 96 << 20, PerByte: 48}, len(in), func() {
			if _, err := parseRecord(0, 64, []byte(in)); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		if took := time.Since(begun); took > 30*time.Second { // on any machine: they took minutes
			t.Errorf("%s: %d bytes took %v", name, len(in), took)
		}
		t.Logf("%s: %d bytes, %v", name, len(in), time.Since(begun))
	}
}

// Who waits while another reads waits no longer than its time, and what one host tells is bounded, so that no rank has its host taken for a
// liar.
func TestReadersWaitNoLongerThanTheirTime(t *testing.T) {
	r, err := NewRecorder(t.TempDir(), 1<<16)
	if err != nil {
		t.Fatal(err)
	}
	members := "}(\x8c\x07entries]\x8c\x09pg_config}("
	for i := range maxGroups {
		members += fmt.Sprintf("\x8c\x02%02d}(\x8c\x05ranks\x8c\x0565535u", i)
	}
	for rank := range 20 {
		if err := os.WriteFile(r.Prefix()+fmt.Sprint(rank), []byte(members+"uu."), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	over, cancel := context.WithCancel(t.Context())
	told := 0
	r.News(t.Context(), func(rec Record) {
		if told += rec.Bytes(); rec.Rank == 0 { // while this one reads
			cancel()
			r.News(over, func(Record) { t.Error("two read at a time") })
			r.Ask(over, func(Record) { t.Error("two read at a time") })
		}
	})
	if told == 0 || told > maxTold {
		t.Errorf("%d bytes are told, of %d", told, maxTold)
	}
}

// Dumps are told of once, and again when they are written anew; what is no dump is none.
func TestNews(t *testing.T) {
	r, err := NewRecorder(filepath.Join(t.TempDir(), "flight-0"), 64)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, file string) {
		if err := os.WriteFile(r.Prefix()+name, flightDump(t, file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ranks := func() string {
		var list []int
		r.News(t.Context(), func(rec Record) { list = append(list, rec.Rank) })
		return fmt.Sprint(list)
	}
	put("0", "nccl-2.4-rank_0")
	put("2", "nccl-2.4-rank_2")
	put("x", "nccl-2.4-rank_0")
	put("99999999", "nccl-2.4-rank_0")
	if err := os.Symlink(r.Prefix()+"0", r.Prefix()+"5"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(r.Prefix()+"6", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.Prefix()+"7", flightDump(t, "nccl-2.4-rank_0")[:100], 0o600); err != nil { // it is being written
		t.Fatal(err)
	}
	if got := ranks(); got != "[0 2]" {
		t.Errorf("news of %s", got)
	}
	put("7", "nccl-2.4-rank_0")
	put("2", "nccl-2.4-other")
	if got := ranks(); got != "[2 7]" {
		t.Errorf("then news of %s", got)
	}
	if got := ranks(); got != "[]" {
		t.Errorf("then news of %s", got)
	}
	r.Remove()
	if got := ranks(); got != "[]" {
		t.Errorf("news of %s in a directory that is gone", got)
	}
}

// A process that reads its pipe, as torch does, is asked; one that does not read costs no more than the time that is given.
func TestAskRecorder(t *testing.T) {
	r, err := NewRecorder(t.TempDir(), 64)
	if err != nil {
		t.Fatal(err)
	}
	text := flightDump(t, "nccl-2.4-rank_2")
	pipe := func(name string) string {
		path := r.Pipe() + name + ".pipe"
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	torch, err := os.OpenFile(pipe("2"), os.O_RDWR|syscall.O_NONBLOCK, 0) // to write, too: else it is at its end before somebody asks
	if err != nil {
		t.Fatal(err)
	}
	defer torch.Close()
	pipe("3") // whose process has ended
	done := make(chan error, 1)
	go func() {
		var b [8]byte
		_, err := torch.Read(b[:])
		if err == nil {
			err = os.WriteFile(r.Prefix()+"2", text, 0o600)
		}
		done <- err
	}()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	var got []Record
	r.Ask(ctx, func(rec Record) { got = append(got, rec) })
	if err := <-done; err != nil || len(got) != 1 || got[0].Rank != 2 {
		t.Errorf("%v, %v", got, err)
	}
	deaf, err := os.OpenFile(pipe("4"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	r.Ask(over, func(rec Record) { t.Errorf("%v", rec) })
}

// What ranks put in the place of the directory, or into it, leads nowhere else and holds nobody up; nor does one that reads its full pipe no more.
func TestRecorderWhoseDirectoryIsAttacked(t *testing.T) {
	top := t.TempDir()
	r, err := NewRecorder(filepath.Join(top, "flight-0"), 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.Prefix()+"1", flightDump(t, "nccl-2.4-rank_0"), 0o600); err != nil {
		t.Fatal(err)
	}
	full := r.Pipe() + "2.pipe"
	if err := syscall.Mkfifo(full, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(full, os.O_RDWR|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	conn, err := reader.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Control(func(fd uintptr) {
		for n := 1; n > 0; n, _ = syscall.Write(int(fd), make([]byte, 4096)) {
		}
	}); err != nil {
		t.Fatal(err)
	}

	moved := filepath.Join(top, "moved")
	if err := errors.Join(os.Rename(filepath.Join(top, "flight-0"), moved), syscall.Mkfifo(filepath.Join(top, "flight-0"), 0o600),
		os.Mkdir(filepath.Join(top, "other"), 0o700), os.WriteFile(filepath.Join(top, "other", "rank_3"), flightDump(t, "nccl-2.4-rank_0"), 0o600),
		os.Symlink(filepath.Join(top, "other", "rank_3"), filepath.Join(moved, "rank_4"))); err != nil {
		t.Fatal(err)
	}
	var got []int
	r.Ask(t.Context(), func(rec Record) { got = append(got, rec.Rank) })
	if !slices.Equal(got, []int{1}) {
		t.Errorf("news of %v, want those of what is in the directory that was held", got)
	}
	r.Remove()
}

// A directory that does not answer, as on a dead mount, holds nobody up beyond their time, and costs one goroutine however often it is asked.
func TestRecorderOnADeadMount(t *testing.T) {
	dir, err := bounded.HoldDir(deadmount.New(t))
	if err != nil {
		t.Fatal(err)
	}
	r := &Recorder{dir: dir, ranks: 64, asks: make(chan struct{}, 1), turn: make(chan struct{}, 1), read: map[string]stamp{}, told: map[int]int{}}
	before := runtime.NumGoroutine()
	for range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		r.News(ctx, func(Record) { t.Error("there is news of a directory that does not answer") })
		r.Ask(ctx, func(Record) { t.Error("there is an answer of a directory that does not answer") })
		cancel()
	}
	if n := runtime.NumGoroutine(); n > before+3 { // timers of contexts end at their time
		t.Errorf("there are %d goroutines, and there were %d", n, before)
	}
}
