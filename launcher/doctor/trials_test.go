package doctor

import (
	"testing"

	"github.com/mpiup/mpiup/internal/job"
)

var threeHosts = []string{"w0", "w1", "w2"}

func report(hosts ...string) *Report { return &Report{Verdict: Pass, Hosts: hosts} }

// wrote is a host that wrote 256 MiB in so many milliseconds.
func wrote(ms int64) job.DirTrial {
	return job.DirTrial{Size: 256 << 20, WriteNS: ms * 1e6, SmallNS: 400_000}
}

func read() job.DirTrial { return job.DirTrial{ReadNS: 500e6, LateNS: 2e6} }

func locked() job.DirTrial { return job.DirTrial{Locked: 20} }

func TestShared(t *testing.T) {
	r := report(threeHosts...)
	JudgeShared(r, &SharedTrial{Dir: "/data", Hosts: threeHosts, Write: []job.DirTrial{wrote(500), wrote(520), wrote(510)}, Read: []job.DirTrial{read(), read(), read()},
		Lock: []job.DirTrial{locked(), locked(), locked()}, Count: 60})
	shown(t, "shared", r)

	late, cut, slow := read(), read(), wrote(2000)
	late.LateNS, cut.Wrong = 3e9, 4096
	r = report(threeHosts...)
	JudgeShared(r, &SharedTrial{Dir: "/data", Hosts: threeHosts, Write: []job.DirTrial{wrote(500), wrote(520), slow}, Read: []job.DirTrial{late, cut, read()},
		Lock: []job.DirTrial{locked(), {Locked: 7, NoLocks: "operation not supported"}, locked()}, Count: 41,
		Left: []Left{{"w2", "/data/.mpiup-doctor-1", "device busy"}}})
	shown(t, "shared-sick", r)

	other, missing := read(), job.DirTrial{Missing: []int{0, 2, 99, -1}}
	other.Missing = []int{1}
	r = report(threeHosts...)
	JudgeShared(r, &SharedTrial{Dir: "/data", Hosts: threeHosts, Write: []job.DirTrial{wrote(500), wrote(520), wrote(500)}, Read: []job.DirTrial{other, missing, other}})
	JudgeShared(r, &SharedTrial{Dir: "/nope", Hosts: threeHosts, Write: []job.DirTrial{wrote(500), {Error: "permission denied", Fix: "mount it"}, wrote(500)}})
	shown(t, "shared-not", r)
}

// Where locks are each host's own, each is told; one that sees late what others write is told, but where that may be another's fault.
func TestSharedLocks(t *testing.T) {
	r := report(threeHosts...)
	all := func(lock ...job.DirTrial) *SharedTrial {
		return &SharedTrial{Dir: "/data", Hosts: threeHosts, Write: make([]job.DirTrial, 3), Read: make([]job.DirTrial, 3), Lock: lock, Count: 20}
	}
	JudgeShared(r, all(job.DirTrial{Loose: true}, job.DirTrial{Loose: true}, locked()))
	JudgeShared(r, all(locked(), job.DirTrial{Stale: true}, job.DirTrial{}))
	JudgeShared(r, all(locked(), job.DirTrial{Stale: true}, job.DirTrial{Error: "input/output error"}))
	shown(t, "shared-locks", r)
}

// What failed comes first, then what differs from most.
func TestChecked(t *testing.T) {
	hosts := []string{"w0", "w1", "w2", "w3"}
	r := report(hosts...)
	fine := []string{"8"}
	JudgeChecked(r, Checked{Command: "nvidia-smi -L | grep --count H100", Outcomes: []Outcome{{Host: "w0", Lines: fine}, {Host: "w1", Lines: []string{"7"}},
		{Host: "w2", Lines: fine}, {Host: "w3", Code: 3, Lines: []string{"no device", "sorry"}}}})
	JudgeChecked(r, Checked{Command: "true", Outcomes: []Outcome{{Host: "w0"}, {Host: "w1", Code: 246, Error: "host w1: the agent's policy refuses run"}, {Host: "w2"}, {Host: "w3"}}})
	shown(t, "checked", r)
}
