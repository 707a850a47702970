package ranks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/agent/reap/proctree"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// counted is what a container's cgroups tell.
type counted struct {
	used, limit, peak, kills uint64
	blind                    bool
}

func (c *counted) MemoryUsed() uint64  { return c.used }
func (c *counted) MemoryLimit() uint64 { return c.limit }
func (c *counted) MemoryPeak() uint64  { return c.peak }
func (c *counted) OOMKills() (uint64, error) {
	if c.blind {
		return 0, errors.New("no memory cgroup")
	}
	return c.kills, nil
}

// machine is a /proc of processes.
type machine struct {
	t    *testing.T
	proc proctree.Proc
}

// runs adds a process, of so many MiB.
func (m machine) runs(pid, parent int, name string, mib int) {
	m.t.Helper()
	dir := filepath.Join(m.proc.Root, fmt.Sprint(pid))
	pages := mib << 20 / os.Getpagesize()
	zeros := func(n int) string { return strings.Repeat("0 ", n) }
	// proc_pid_stat(5): state ppid pgrp session, then up to starttime (22), vsize and rss (24), and the rest.
	text := fmt.Sprintf("%d (%s) S %d %d %d %s%d 0 %d %s", pid, name, parent, pid, pid, zeros(15), 100+pid, pages, zeros(30))
	if err := errors.Join(os.MkdirAll(dir, 0o755), os.WriteFile(filepath.Join(dir, "stat"), []byte(text), 0o644)); err != nil {
		m.t.Fatal(err)
	}
}

// ends removes a process.
func (m machine) ends(pid int) {
	if err := os.RemoveAll(filepath.Join(m.proc.Root, fmt.Sprint(pid))); err != nil {
		m.t.Fatal(err)
	}
}

// TestVictims names whom the kernel has killed for memory, as far as that shows, and no other.
func TestVictims(t *testing.T) {
	const gib = 1 << 30
	begun := time.Unix(1000, 0)
	for _, tt := range []struct {
		name   string
		used   uint64 // at the look before
		kills  uint64 // after it
		gone   []int
		blind  bool
		want   string
		killed bool // the rank of id 7, had it ended by SIGKILL a second later
	}{
		{name: "nobody", used: gib / 2},
		{name: "a worker of a rank", used: gib / 2, kills: 1, gone: []int{12}, want: "12 python3 300 MiB of 7", killed: true},
		{name: "the largest, not another that ended", used: gib / 2, kills: 1, gone: []int{12, 13}, want: "12 python3 300 MiB of 7", killed: true},
		{name: "two", used: gib / 2, kills: 2, gone: []int{12, 31, 13}, want: "12 python3 300 MiB of 7, 31 python3 200 MiB of 8", killed: true},
		{name: "of no rank", used: gib / 2, kills: 1, gone: []int{40}, want: "40 cache 100 MiB of nobody"},
		{name: "a wrapper that ended because of it", used: gib / 2, kills: 1, gone: []int{10, 12}, want: "12 python3 300 MiB of 7", killed: true},
		{name: "another container's", used: gib / 2, kills: 1, gone: []int{50}, killed: true},
		{name: "one of ours, beside another container's", used: gib / 2, kills: 1, gone: []int{50, 12}, want: "12 python3 300 MiB of 7", killed: true},
		{name: "two alike", used: gib / 2, kills: 1, gone: []int{12, 31}, killed: true},
		{name: "small ones, of which one has just begun to grow", used: gib / 2, kills: 1, gone: []int{60, 61}, killed: true},
		{name: "all are there", used: gib / 2, kills: 1, killed: true},
		{name: "memory was not scarce", used: gib / 8, kills: 1, gone: []int{12}, killed: true},
		{name: "one that ended by itself", used: gib / 2, gone: []int{12}},
		{name: "nothing shows", used: gib / 2, kills: 1, gone: []int{12}, blind: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := machine{t, proctree.Proc{Root: t.TempDir()}}
			m.runs(5, 1, "mpiup", 40)
			m.runs(10, 5, "run.sh", 3)
			m.runs(12, 10, "python3", 300)
			m.runs(13, 10, "python3", 30)
			m.runs(30, 5, "python3", 20)
			m.runs(31, 30, "python3", 200)
			m.runs(40, 5, "cache", 100)
			m.runs(50, 1, "database", 900) // of another container, in the same PID namespace
			m.runs(60, 5, "small", 20)
			m.runs(61, 5, "smaller", 15)
			groups := &counted{used: tt.used, limit: gib, kills: 5, blind: tt.blind}
			is := newMemory(groups, m.proc, 5, func() map[int]uint32 { return map[int]uint32{10: 7, 30: 8} })
			is.look(begun)
			for _, pid := range tt.gone {
				m.ends(pid)
			}
			groups.kills += tt.kills
			told := is.ended(begun.Add(time.Second))
			if got := victims(told); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			if got := killedRank(told, 7); got != tt.killed {
				t.Errorf("the rank was killed for memory: %t", got)
			}
		})
	}
}

func victims(m *apiv1.ContainerMemory) string {
	var all []string
	for _, v := range m.Victims {
		whose := "nobody"
		if v.Rank > 0 {
			whose = fmt.Sprint(v.Rank - 1)
		}
		all = append(all, fmt.Sprintf("%d %s %d MiB of %s", v.Pid, v.Name, v.Resident>>20, whose))
	}
	return strings.Join(all, ", ")
}

// A rank that SIGKILL ends long after the kernel killed another process is not killed for memory, and the launcher is told how long ago that was.
func TestKillsGrowOld(t *testing.T) {
	begun := time.Unix(1000, 0)
	groups := &counted{used: 900, limit: 1000, kills: 1}
	is := newMemory(groups, proctree.Proc{Root: t.TempDir()}, 5, func() map[int]uint32 { return nil })
	if is.look(begun).Kills != 0 {
		t.Error("kills before the job count")
	}
	groups.kills++
	is.look(begun.Add(time.Second))
	told := is.ended(begun.Add(41 * time.Second))
	if told.Kills != 1 || told.KilledMs != 40_000 || killedRank(told, 0) {
		t.Errorf("%v; the rank was killed for memory: %t", told, killedRank(told, 0))
	}
}

// TestWorthTelling tells the launcher of memory while it is scarce and changes, and of each kill.
func TestWorthTelling(t *testing.T) {
	const limit = 1 << 30
	look := func(used uint64) *apiv1.ContainerMemory { return &apiv1.ContainerMemory{Used: used, Limit: limit} }
	for _, tt := range []struct {
		name      string
		told, now *apiv1.ContainerMemory
		want      bool
	}{
		{"the first", nil, look(1), true},
		{"little", look(1), look(limit / 8), false},
		{"much, and the same", look(limit / 2), look(limit / 2), false},
		{"much, and more", look(limit / 2), look(limit/2 + limit/100), true},
		{"much no longer", look(limit / 2), look(limit / 8), true},
		{"a kill", look(1), &apiv1.ContainerMemory{Used: 1, Limit: limit, Kills: 1}, true},
		{"another limit", look(1), &apiv1.ContainerMemory{Used: 1, Limit: limit / 2}, true},
		{"no limit", &apiv1.ContainerMemory{Used: limit}, &apiv1.ContainerMemory{Used: 3 * limit}, false},
	} {
		if got := worthTelling(tt.told, tt.now); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}
