package doctor

import (
	"testing"

	"github.com/mpiup/mpiup/internal/trial"
)

var threeHosts = []string{"w0", "w1", "w2"}

func report(hosts ...string) *Report { return &Report{Verdict: Pass, Hosts: hosts} }

// wrote is a host that wrote 256 MiB in so many milliseconds.
func wrote(ms int64) trial.Shared {
	return trial.Shared{Size: 256 << 20, WriteNS: ms * 1e6, SmallNS: 400_000}
}

func read() trial.Shared { return trial.Shared{ReadNS: 500e6, LateNS: 2e6} }

func locked() trial.Shared { return trial.Shared{Locked: 20} }

func TestShared(t *testing.T) {
	r := report(threeHosts...)
	JudgeShared(r, &SharedTrial{Dir: "/data", Hosts: threeHosts, Write: []trial.Shared{wrote(500), wrote(520), wrote(510)}, Read: []trial.Shared{read(), read(), read()},
		Lock: []trial.Shared{locked(), locked(), locked()}, Count: 60})
	shown(t, "shared", r)

	late, cut, slow := read(), read(), wrote(2000)
	late.LateNS, cut.Wrong = 3e9, 4096
	r = report(threeHosts...)
	JudgeShared(r, &SharedTrial{Dir: "/data", Hosts: threeHosts, Write: []trial.Shared{wrote(500), wrote(520), slow}, Read: []trial.Shared{late, cut, read()},
		Lock: []trial.Shared{locked(), {Locked: 7, NoLocks: "operation not supported"}, locked()}, Count: 41,
		Left: []Left{{"w2", "/data/.mpiup-doctor-1", "device busy"}}})
	shown(t, "shared-sick", r)

	other, missing := read(), trial.Shared{Missing: []int{0, 2, 99, -1}}
	other.Missing = []int{1}
	r = report(threeHosts...)
	JudgeShared(r, &SharedTrial{Dir: "/data", Hosts: threeHosts, Write: []trial.Shared{wrote(500), wrote(520), wrote(500)}, Read: []trial.Shared{other, missing, other}})
	JudgeShared(r, &SharedTrial{Dir: "/nope", Hosts: threeHosts, Write: []trial.Shared{wrote(500), {Error: "permission denied", Fix: "mount it"}, wrote(500)}})
	shown(t, "shared-not", r)
}

// Where locks are each host's own, each is told; one that sees late what others write is told, but where that may be another's fault.
func TestSharedLocks(t *testing.T) {
	r := report(threeHosts...)
	all := func(lock ...trial.Shared) *SharedTrial {
		return &SharedTrial{Dir: "/data", Hosts: threeHosts, Write: make([]trial.Shared, 3), Read: make([]trial.Shared, 3), Lock: lock, Count: 20}
	}
	JudgeShared(r, all(trial.Shared{Loose: true}, trial.Shared{Loose: true}, locked()))
	JudgeShared(r, all(locked(), trial.Shared{Stale: true}, trial.Shared{}))
	JudgeShared(r, all(locked(), trial.Shared{Stale: true}, trial.Shared{Error: "input/output error"}))
	shown(t, "shared-locks", r)
}

func TestComputed(t *testing.T) {
	r := report(threeHosts...)
	JudgeComputed(r, threeHosts, []trial.Computed{{CPUs: 64, Rounds: 6400}, {CPUs: 64, Wrong: []trial.Wrong{{CPU: 17, Times: 2, Of: 100}}}, {Error: "it ended with code 246"}}, []int{8, 8, 0})
	shown(t, "computed", r)
	many := make([]trial.Wrong, 64)
	r = report("w0")
	JudgeComputed(r, []string{"w0"}, []trial.Computed{{CPUs: 64, Wrong: many}}, []int{0})
	if len(r.Rows) != 2 || r.Rows[1].Text != "56 more CPUs gave wrong results" {
		t.Errorf("%+v", r.Rows)
	}
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
