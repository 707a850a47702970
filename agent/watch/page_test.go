package watch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/cost"

	"github.com/mpiup/mpiup/internal/job"
)

// since and now bound what the pages of these tests say; a tick is half a nanosecond.
const (
	since = 10 * time.Second
	now   = 100 * time.Second
)

// written is a page as the library writes it.
type written []byte

func newPage() written {
	b := make(written, pageBytes)
	binary.NativeEndian.PutUint32(b, magic)
	binary.NativeEndian.PutUint32(b[4:], version)
	b.u32(24, 3)
	b.u32(28, 8)
	b.u32(16, stateInitialized)
	b.u64(32, 0)                      // ticks
	b.u64(40, uint64(20*time.Second)) // and the time, at MPI_Init
	b.u64(48, 120e9)
	b.u64(56, uint64(80*time.Second))
	return b
}

func (b written) u32(at int, n uint32) { binary.NativeEndian.PutUint32(b[at:], n) }
func (b written) u64(at int, n uint64) { binary.NativeEndian.PutUint64(b[at:], n) }

// point writes the point of the seq-th collective to a ring, with times in ticks.
func (b written) point(level int, seq, waited, other, loose, at uint64) {
	where := header + (level*perLevel+int(seq>>(shift*level)%perLevel))*onePoint
	for i, n := range []uint64{seq, waited, other, loose, at} {
		b.u64(where+8*i, n)
	}
}

func TestParse(t *testing.T) {
	b := newPage()
	b.u64(64, 33)
	b.u64(96, 130e9)
	b.u64(112, 128e9)
	b.point(0, 32, 2e9, 1e9, 0, 40e9)
	b.point(0, 33, 4e9, 1e9, 1, 42e9)
	b.point(1, 32, 2e9, 1e9, 0, 40e9)
	got := parse(b, b, since, now)
	want := []job.WaitPoint{{Seq: 32, Waited: time.Second, Other: time.Second / 2, At: 40 * time.Second},
		{Seq: 33, Waited: 2 * time.Second, Other: time.Second / 2, Loose: 1, At: 41 * time.Second}}
	if got.State != job.Measured || got.Rank != 3 || got.Size != 8 || got.Seq != 33 || got.Inside != 85*time.Second || got.Elsewhere != 84*time.Second || !slices.Equal(got.Points, want) {
		t.Errorf("%+v", got)
	}
	torn := slices.Clone(b)
	torn.point(0, 33, 5e9, 1e9, 1, 43e9)
	if got := parse(torn, b, since, now); len(got.Points) != 1 {
		t.Errorf("a point that was being written counts: %+v", got.Points)
	}
	for state, want := range map[uint32]job.WatchState{0: job.Unwatched, 1: job.Measured, 2: job.Finalized, 3: job.Unknown, 77: job.Unwatched} {
		b.u32(16, state)
		if got := parse(b, b, since, now); got.State != want {
			t.Errorf("state %d is %d", state, got.State)
		}
	}
	b.u32(16, stateInitialized)
	b.u32(20, sawFullTable)
	if got := parse(b, b, since, now); got.State != job.Lost {
		t.Errorf("a rank of too many requests: %d", got.State)
	}
}

// What cannot be is dropped: a rank writes what it likes.
func TestParseOfALiar(t *testing.T) {
	for name, write := range map[string]func(b written){
		"of the future": func(b written) { b.point(0, 1, 1e9, 0, 0, 200e9) },
		"before its start": func(b written) {
			b.u64(40, uint64(time.Second))
			b.u64(56, uint64(61*time.Second))
			b.point(0, 1, 1, 0, 0, 2)
		},
		"of more time than there is": func(b written) { b.point(0, 1, 1<<62, 0, 0, 40e9) },
		"not yet reached":            func(b written) { b.point(0, 2, 1e9, 0, 0, 40e9) },
		"at another's place":         func(b written) { b.point(0, 1, 1e9, 0, 0, 40e9); b.u64(header+onePoint, 49) },
		"looser than it is long":     func(b written) { b.point(0, 1, 1e9, 0, 2, 40e9) },
		"by a clock that stands":     func(b written) { b.u64(48, 0); b.point(0, 1, 1e9, 0, 0, 40e9) },
		"by a clock too fast":        func(b written) { b.u64(48, 1); b.point(0, 1, 1e9, 0, 0, 40e9) },
		"of another version":         func(b written) { b.u32(4, version+1); b.point(0, 1, 1e9, 0, 0, 40e9) },
	} {
		b := newPage()
		b.u64(64, 1)
		write(b)
		if got := parse(b, b, since, now); len(got.Points) > 0 {
			t.Errorf("%s: %+v", name, got.Points)
		}
	}
	b := newPage()
	b.u64(64, 3)
	b.point(0, 1, 3e9, 0, 0, 40e9)
	b.point(0, 2, 2e9, 0, 0, 41e9) // a sum that falls
	b.point(0, 3, 4e9, 0, 0, 39e9) // a clock that goes back
	if got := parse(b, b, since, now); len(got.Points) != 1 {
		t.Errorf("%+v", got.Points)
	}
}

func FuzzParse(f *testing.F) {
	b := newPage()
	b.u64(64, 40)
	for seq := range uint64(40) {
		b.point(0, seq+1, 1e9*seq, 0, 0, 40e9+1e8*seq)
	}
	f.Add([]byte(b), []byte(b[:600]))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		defer cost.Watch(t, cost.Parser, len(first)+len(second))()
		var a, b [pageBytes]byte
		copy(a[:], first)
		copy(b[:], second)
		s := parse(a[:], b[:], since, now)
		var last job.WaitPoint
		for _, p := range s.Points {
			if p.Seq <= last.Seq || p.Seq > s.Seq || p.Waited < last.Waited || p.Other < last.Other || p.At < last.At || p.At <= since || p.At > now {
				t.Fatalf("%+v after %+v", p, last)
			}
			last = p
		}
		var feed Feed
		if got, once := feed.Next(s.Waits), Recent(s.Points, since); len(got) > most || len(once) > mostSeen {
			t.Fatalf("%d points, and %d", len(got), len(once))
		}
	})
}

func TestPage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0")
	p, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if fi, err := os.Stat(path); err != nil || fi.Mode().Perm() != 0o600 || fi.Size() != pageBytes {
		t.Errorf("%v, %v", fi.Mode(), err)
	}
	if s, err := p.Read(&Copies{}); err != nil || s.State != job.Unwatched {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := Create(path); err == nil {
		t.Error("a file that was there is used")
	}
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Read(&Copies{}); err == nil || !strings.Contains(err.Error(), "cut to 100 bytes by its rank") {
		t.Errorf("%v", err)
	}
}

// All points are handed over while they are few; of more those whose numbers are multiples of a power of two.
func TestFeed(t *testing.T) {
	sample := func(from, to uint64) (s job.Waits) {
		s.Seq = to
		for seq := from; seq <= to; seq++ {
			s.Points = append(s.Points, job.WaitPoint{Seq: seq})
		}
		return s
	}
	var f Feed
	for i, c := range []struct {
		from, to uint64
		want     []uint64
	}{
		{1, 3, []uint64{1, 2, 3}},
		{1, 5, []uint64{4, 5}},
		{1, 5, nil},
		{10, 100, []uint64{16, 24, 32, 40, 48, 56, 64, 72, 80, 88, 96}},
		{60, 110, []uint64{101, 102, 103, 104, 105, 106, 107, 108, 109, 110}},
		{1, 2, []uint64{1, 2}}, // it counts anew
	} {
		var got []uint64
		for _, p := range f.Next(sample(c.from, c.to)) {
			got = append(got, p.Seq)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%d: %v in place of %v", i, got, c.want)
		}
	}
}

func TestCounters(t *testing.T) {
	for name, c := range map[string]struct {
		file, text string
		want       time.Duration
	}{
		"v2":      {"cpu.stat", "usage_usec 5\nnr_throttled 3\nthrottled_usec 1500\n", 1500 * time.Microsecond},
		"v1":      {"cpu,cpuacct/cpu.stat", "nr_periods 9\nthrottled_time 1500\n", 1500},
		"hostile": {"cpu.stat", "throttled_usec -9223372036854775808\n", 0},
		"none":    {"other", "", 0},
	} {
		root := t.TempDir()
		path := filepath.Join(root, c.file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(c.text), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := throttled(root); got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	for text, want := range map[string]time.Duration{"1 2 3": 2, "1": 0, "x y": 0, "1 -5 2": 0} {
		if got := queued([]byte(text)); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

const snmp = "Ip: Forwarding DefaultTTL\nIp: 1 64\nTcp: RtoAlgorithm MaxConn OutSegs RetransSegs InErrs\nTcp: 1 -1 4000 40 0\nUdp: InDatagrams\nUdp: 7\n"

func TestLoad(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"sys/fs/cgroup/cpu.stat":        "throttled_usec 1500\n",
		"sys/fs/cgroup/memory.pressure": "some avg10=0.00 avg60=0.00 avg300=0.00 total=2000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n",
		"sys/fs/cgroup/io.pressure":     "some avg10=0.00 avg60=0.00 avg300=0.00 total=3000\n",
		"proc/net/snmp":                 snmp,
		"sys/class/infiniband/mlx5_0/ports/1/counters/symbol_error":    "3\n",
		"sys/class/infiniband/mlx5_1/ports/1/counters/link_downed":     "1\n",
		"sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq":      "2000000\n",
		"sys/devices/system/cpu/cpufreq/policy1/scaling_cur_freq":      "1000000\n",
		"sys/devices/system/cpu/cpufreq/policy1/scaling_other":         "7\n",
		"sys/class/infiniband/mlx5_1/ports/1/counters/port_rcv_errors": "none\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	_, got := LoadOf(root)
	want := job.RankWork{Throttled: 1500 * time.Microsecond, Memory: 2 * time.Millisecond, Storage: 3 * time.Millisecond, Segments: 4000, Resent: 40, LinkErrors: 4, MHz: 1500}
	if got != want {
		t.Errorf("%+v", got)
	}
	if at, got := LoadOf(t.TempDir()); at == 0 || got.Throttled+got.Memory+got.Storage != 0 || got.Segments+got.LinkErrors != 0 {
		t.Errorf("of nothing: %+v", got)
	}
}

// Of a process that may use the CPUs of node 1 alone, on a machine of three nodes of which the last has no CPU: numa_maps as Linux 6.1 writes it.
func TestFar(t *testing.T) {
	const heap = "55d0c0a00000 default heap anon=300 dirty=300 active=0 N0=100 N1=200 kernelpagesize_kB=4\n"
	const huge = "7f0000000000 bind:0 anon=1 dirty=1 N0=1 kernelpagesize_kB=2048\n"
	const library = "7f1000000000 default file=/usr/lib/libc.so.6 mapped=400 N0=400 kernelpagesize_kB=4\n"
	for name, c := range map[string]struct {
		allowed, maps string
		nodes         int
		want          int
	}{
		"a third":                      {"8-15", heap + library + "7ffc00000000 default\n", 3, 333},
		"huge pages":                   {"8-15", heap + huge, 3, (100*4 + 2048) * 1000 / (300*4 + 2048)},
		"memory of a node without CPU": {"0-15", "1000 default anon=4 N0=1 N2=3 kernelpagesize_kB=4\n", 3, 750},
		"it may use all":               {"0-15", heap + huge, 3, 0},
		"one node":                     {"8-15", heap, 1, 0},
		"nothing of its own":           {"8-15", library, 3, 0},
		"nonsense":                     {"8-15", "x default anon=1 N=7 N-1=2 N99999=3 N1=x kernelpagesize_kB=99999999999999\n", 3, 0},
	} {
		root := t.TempDir()
		write := func(name, text string) {
			path := filepath.Join(root, name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
				t.Fatal(err)
			}
		}
		for i, cpus := range []string{"0-7\n", "8-15\n", "\n"}[:c.nodes] {
			write(fmt.Sprintf("sys/devices/system/node/node%d/cpulist", i), cpus)
		}
		write("proc/7/status", "Name:\tx\nCpus_allowed:\tff00\nCpus_allowed_list:\t"+c.allowed+"\nMems_allowed_list:\t0-2\n")
		write("proc/7/numa_maps", c.maps)
		if got := int(1000 * FarOf(root, 7)); got != c.want {
			t.Errorf("%s: %d", name, got)
		}
		if got := FarOf(root, 8); got != 0 {
			t.Errorf("%s: of no process: %v", name, got)
		}
	}
}

// What the kernel counts may be a container's own files, mounted over.
func FuzzCounters(f *testing.F) {
	f.Add([]byte(snmp))
	f.Add([]byte("some avg10=0.00 total=99999999999999999999\n"))
	f.Add([]byte("Tcp:\nTcp: OutSegs\n"))
	f.Add([]byte("1000 default anon=4 N0=1 N2=3 kernelpagesize_kB=4\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		defer cost.Watch(t, cost.Parser, len(text))()
		segments(text)
		if d := stalled(text); d < 0 || d > maxAge {
			t.Error(d)
		}
		queued(text)
		onNodes(text)
	})
}

// The names of calls are the library's, in its order; and a rank in one is seen there, whatever number it writes.
func TestCalls(t *testing.T) {
	text, err := os.ReadFile("preload/page.h")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{""}
	for _, m := range regexp.MustCompile(`X\(([A-Z]\w+)\)`).FindAllStringSubmatch(string(text), -1) {
		names = append(names, "MPI_"+m[1])
	}
	if !slices.Equal(names, calls[:]) {
		t.Errorf("the library's are %q", names)
	}
	b := newPage()
	b.u64(120, 130e9)
	for number, want := range map[uint32]string{0: "", 1: "MPI_Barrier", uint32(len(calls) - 1): "MPI_Finalize", uint32(len(calls)): "", 1 << 31: ""} {
		b.u32(128, number)
		if got := parse(b, b, since, now); got.Call != want || want != "" && got.Called != 85*time.Second {
			t.Errorf("call %d is %q since %v", number, got.Call, got.Called)
		}
	}
	b.u32(128, 1)
	b.u64(120, 1<<63)
	if got := parse(b, b, since, now); got.Call != "" {
		t.Errorf("%q since %v", got.Call, got.Called)
	}
}
