package chaos

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/test/lab"
)

// expected is what becomes of a job after a fault. The zero value is a job that goes on unharmed.
type expected struct {
	na     string        // why there is no such cell
	code   int           // of the launcher; -1: a signal ended it
	says   []string      // of its standard error
	within time.Duration // from the fault to the launcher's end
	ranks  time.Duration // from the fault to the last rank's end; 0: as the launcher
	goes   bool          // the phase ends right after the fault: the job goes on into it
	again  bool          // the ranks start again; within: until they are where the first ones were
}

// matrixFault is a row of the matrix.
type matrixFault struct {
	name  string
	flags []string             // of the launcher
	spare bool                 // a host without ranks waits for one that is lost
	ready func(k *cell)        // before anything starts, if not nil
	do    func(k *cell) func() // brings the fault about, and returns what undoes it, or nil
	most  expected             // in phases that do not differ
	in    map[string]expected  // by phase, or by phase/library
}

// Reasons for cells that cannot be.
const (
	noRank  = "no rank runs yet"
	noStart = "no rank starts before the last host is prepared"
)

// Flags of launchers.
var (
	calm  = []string{"--grace", "1"}                                                    // the other times are the defaults
	quick = []string{"--grace", "1", "--node-timeout", "3", "--launcher-timeout", "5s"} // for faults that silence ends
	twice = []string{"--max-restarts", "1"}                                             // besides
)

// Bounds of issue and documentation.
const (
	death   = 200 * time.Millisecond // of ranks that die on SIGTERM, while others spin on cores that cells share; 50 ms where they have their own (docs/performance.md)
	lost    = 2 * time.Second        // an agent that is killed
	silence = 5 * time.Second        // --node-timeout 3
	lease   = 7 * time.Second        // --launcher-timeout 5s and --grace 1
	orphans = 2 * time.Second        // ranks of a killed launcher: 1 s and --grace 1
	notice  = time.Second            // SIGTERM
	forever = -1                     // ranks of a stopped agent: until it goes on
	anew    = 2 * time.Second        // ranks that start again: no bound of the issue, which has a ratio
	expired = 20 * time.Second       // the same, of a host that may still run them: its lease, 10 s and --grace first
)

var withoutRanks = map[string]expected{gathering: {na: noRank}, launching: {na: noStart}}

func rankSignal(sig syscall.Signal) func(k *cell) func() {
	return func(k *cell) func() {
		k.signalRank(sig)
		return nil
	}
}

// cut undoes what it did at the launcher's end, or, when the job is to go on, after a time.
func cut(d time.Duration, do func(k *cell) (func() error, error)) func(k *cell) func() {
	return func(k *cell) func() {
		undo, err := do(k)
		if err != nil {
			k.t.Fatal(err)
		}
		if k.stays {
			k.lasts(d)
		}
		return func() {
			if err := undo(); err != nil {
				k.t.Error(err)
			}
		}
	}
}

var matrixFaults = []matrixFault{
	{name: "rank SIGKILL", flags: calm, do: rankSignal(syscall.SIGKILL), in: withoutRanks,
		most: expected{code: 137, says: []string{"rank 1 on w0", "signal 9"}, within: death}},
	{name: "rank SIGSEGV", flags: calm, do: rankSignal(syscall.SIGSEGV), in: withoutRanks,
		most: expected{code: 139, says: []string{"rank 1 on w0", "signal 11"}, within: death}},
	{name: "rank exits 0 before finalize", flags: calm, do: rankSignal(syscall.SIGUSR2), in: withoutRanks,
		most: expected{code: 1, says: []string{"rank 1 on w0", "MPI_Finalize"}, within: death}},
	{name: "agent SIGKILL", flags: calm, do: killed(hit), in: map[string]expected{gathering: {}},
		most: expected{code: 248, says: []string{"host w0 with ranks 0-1 was lost"}, within: lost}},
	{name: "agent SIGSTOP", flags: quick,
		do: cut(4*time.Second, func(k *cell) (func() error, error) {
			k.agents[hit].Signal(k.t, syscall.SIGSTOP)
			return func() error { return k.agents[hit].Cmd.Process.Signal(syscall.SIGCONT) }, nil
		}),
		most: expected{code: 248, says: []string{"host w0 with ranks 0-1 does not answer", "nothing was heard"}, within: silence, ranks: forever},
		in:   map[string]expected{gathering: {}}},
	{name: "host cut", flags: quick,
		do:   cut(4*time.Second, func(k *cell) (func() error, error) { return k.c.CutLink(hit) }),
		most: expected{code: 248, says: []string{"host w0 with ranks 0-1 was lost", "nothing was heard"}, within: silence, ranks: lease},
		in:   map[string]expected{gathering: {}}},
	{name: "one-way cut", flags: quick,
		do:   cut(4*time.Second, func(k *cell) (func() error, error) { return k.c.CutOneWay(hit, launcherHost) }),
		most: expected{code: 248, says: []string{"host w0 with ranks 0-1 was lost", "nothing was heard"}, within: silence, ranks: lease},
		in:   map[string]expected{gathering: {}}},
	{name: "cut healed after 10 s", flags: calm,
		do: cut(10*time.Second, func(k *cell) (func() error, error) { return k.c.CutLink(hit) })},
	{name: "two hosts at once", flags: calm, do: killed(hit, second), in: map[string]expected{gathering: {}},
		most: expected{code: 248, says: []string{"host w", "was lost"}, within: lost}},
	{name: "slow link", flags: calm, ready: forwarded,
		do: func(k *cell) func() {
			for _, f := range k.forwards {
				f.Delay(200 * time.Millisecond)
			}
			return nil
		}},
	{name: "launcher SIGKILL", flags: calm,
		do: func(k *cell) func() {
			k.job.Signal(k.t, syscall.SIGKILL)
			return nil
		},
		most: expected{code: 137, within: orphans}},
	{name: "launcher SIGKILL, ranks held", flags: []string{"--grace", "1", "--on-launcher-loss", "hold=1m"},
		do: func(k *cell) func() {
			k.job.Signal(k.t, syscall.SIGKILL)
			<-k.job.Done
			k.before = k.job
			k.job = k.launcher(k.phase)
			return nil
		}},
	{name: "launcher cut", flags: quick,
		do:   cut(4*time.Second, func(k *cell) (func() error, error) { return k.c.CutLink(launcherHost) }),
		most: expected{code: 248, says: []string{"was lost", "nothing was heard"}, within: silence, ranks: lease},
		in:   map[string]expected{gathering: {}}},
	{name: "connection reset by a middlebox", flags: calm, ready: forwarded,
		do: func(k *cell) func() {
			for _, f := range k.forwards {
				f.Reset()
			}
			return nil
		}},
	{name: "DNS down", flags: calm,
		do: func(k *cell) func() {
			k.c.DNS().Silent(true)
			if k.stays {
				k.lasts(3 * time.Second)
			}
			return func() { k.c.DNS().Silent(false) }
		}},
	{name: "DNS wrong", flags: calm,
		do: func(k *cell) func() {
			swap := func(a, b, c string) {
				k.c.DNS().Set(k.c.FQDN(hit), k.c.Addr(a))
				k.c.DNS().Set(k.c.FQDN(second), k.c.Addr(b))
				k.c.DNS().Set(k.c.FQDN(late), k.c.Addr(c))
			}
			swap(second, late, hit)
			k.lasts(3 * time.Second)
			return func() { swap(hit, second, late) }
		}},
	{name: "SIGTERM to a worker", flags: calm,
		do: func(k *cell) func() {
			k.agents[hit].Signal(k.t, syscall.SIGTERM)
			return func() { <-k.agents[hit].Done }
		},
		in:   map[string]expected{gathering: {}},
		most: expected{code: 249, says: []string{"host w0", "is being taken away", "SIGTERM"}, within: notice}},
	{name: "pod back with a new address", flags: quick,
		do: func(k *cell) func() {
			k.kill(hit)
			k.empty(hit, "/tmp/mpiup-0 /dev/shm/*")
			if err := k.c.Readdress(hit); err != nil {
				k.t.Fatal(err)
			}
			k.c.DNS().Set(k.c.FQDN(hit), k.c.Addr(hit))
			k.publish()
			k.start(hit)
			return nil
		},
		most: expected{code: 248, says: []string{"host w0 with ranks 0-1 was lost"}, within: silence},
		in:   map[string]expected{gathering: {}}},
	{name: "disk full", flags: calm, do: filled("/tmp")},
	{name: "shared memory full", flags: calm, do: filled("/dev/shm"),
		in: map[string]expected{gathering + "/mpich": noMemory, launching + "/mpich": noMemory, inInit + "/mpich": noMemory, inFence + "/mpich": noMemory}},
	{name: "memory limit", flags: calm, in: withoutRanks, ready: func(k *cell) { k.boxed = true },
		do: func(k *cell) func() {
			undo := k.undone(k.c.LimitMemory(hit, 256<<20))
			k.signalRank(syscall.SIGUSR1)
			return undo
		},
		most: expected{code: 137, says: []string{"rank 1 on w0", "out of memory", "the memory limit of w0 is "}, within: silence}},
	{name: "pid limit", flags: calm, do: func(k *cell) func() { return k.undone(k.c.LimitProcesses(hit, 1)) },
		in: map[string]expected{gathering: noProcess, launching: noProcess}},
	{name: "descriptor limit", flags: calm, do: fewDescriptors,
		in: map[string]expected{gathering: noProcess, launching: noProcess}},
	{name: "all cores spinning", flags: calm, do: spinning},
	{name: "CPU quota of a tenth", flags: calm,
		do: cut(5*time.Second, func(k *cell) (func() error, error) {
			return func() error { return k.c.Throttle(hit, 0) }, k.c.Throttle(hit, 0.1)
		})},
	{name: "certificate replaced", flags: calm, ready: certified, do: renewed},
	{name: "garbage and half-open connections", flags: calm, do: strangers},
	{name: "10,000 connections", flags: calm, do: crowd},
	{name: "gossip cut for 20 s", flags: calm, // longer than a member is suspected
		do: cut(20*time.Second, func(k *cell) (func() error, error) {
			var undo []func() error
			for _, other := range []string{second, late} {
				for _, way := range [][2]string{{hit, other}, {other, hit}} {
					u, err := k.c.CutOneWay(way[0], way[1])
					if err != nil {
						return nil, err
					}
					undo = append(undo, u)
				}
			}
			return func() error {
				var errs []error
				for _, u := range undo {
					errs = append(errs, u())
				}
				defer k.met()
				return errors.Join(errs...)
			}, nil
		})},
	{name: "members come and go", flags: calm,
		do: func(k *cell) func() {
			for range 3 {
				k.start(guest)
				k.met()
				k.kill(guest)
			}
			k.start(guest)
			k.agents[guest].Signal(k.t, syscall.SIGTERM)
			<-k.agents[guest].Done
			return nil
		}},
	{name: "SIGTERM to the launcher", flags: calm,
		do: func(k *cell) func() {
			k.job.Signal(k.t, syscall.SIGTERM)
			return nil
		},
		in:   map[string]expected{gathering: {code: 249, says: []string{"got SIGTERM while waiting for hosts"}, within: notice}},
		most: expected{code: 249, says: []string{"the launcher on launcher got SIGTERM"}, within: notice}},
	{name: "rank SIGKILL, --max-restarts 1", flags: slices.Concat(calm, twice), do: rankSignal(syscall.SIGKILL), in: withoutRanks,
		most: expected{again: true, says: []string{"rank 1 on w0", "signal 9", "(restart 1 of 1)"}, within: anew}},
	{name: "agent SIGKILL, --max-restarts 1", flags: slices.Concat(calm, twice), do: killed(hit), in: map[string]expected{gathering: {}},
		most: expected{again: true, says: []string{"host w0 with ranks 0-1 was lost", "(restart 1 of 1)"}, within: anew}},
	{name: "agent SIGKILL, --spares 1", flags: slices.Concat(calm, twice, []string{"--spares", "1"}), spare: true, do: killed(hit), in: map[string]expected{gathering: {}},
		most: expected{again: true, says: []string{"host w0 with ranks 0-1 was lost", "w3 comes in for w0: ranks 0-1"}, within: anew}},
	{name: "host cut, --spares 1", flags: slices.Concat(quick, twice, []string{"--spares", "1"}), spare: true,
		do: cut(4*time.Second, func(k *cell) (func() error, error) {
			undo, err := k.c.CutLink(hit)
			return func() error {
				defer k.reachable(hit)
				return undo()
			}, err
		}),
		most: expected{again: true, says: []string{"host w0 with ranks 0-1 was lost", "w3 comes in for w0: ranks 0-1"}, within: expired},
		in:   map[string]expected{gathering: {}}},
}

// noProcess is what becomes of a job of which a host can start no rank.
var noProcess = expected{code: 247, says: []string{"w0"}, within: silence, goes: true}

// noMemory is what becomes of a job of MPICH, which touches shared memory that is not there. Open MPI does without.
var noMemory = expected{code: 135, says: []string{"/dev/shm"}, within: silence, goes: true}

// killed kills agents; a container that is restarted has another one.
func killed(names ...string) func(k *cell) func() {
	return func(k *cell) func() {
		for _, h := range names {
			k.agents[h].Signal(k.t, syscall.SIGKILL)
		}
		for _, h := range names {
			<-k.agents[h].Done
		}
		if k.stays {
			k.start(names...)
		}
		return nil
	}
}

// forwarded has all hosts' names lead to forwarders.
func forwarded(k *cell) {
	for _, h := range hosts {
		f, err := k.c.Forward(h, agentPort)
		if err != nil {
			k.t.Fatal(err)
		}
		k.forwards = append(k.forwards, f)
		k.c.DNS().Set(k.c.FQDN(h), f.Addr())
	}
}

// reachable waits until a host whose cable is back reaches the agents there are: who connects then may still be told what came of an
// earlier question for an address.
func (k *cell) reachable(host string) {
	k.t.Helper()
	for other := range k.agents {
		lab.Eventually(k.t, host+" reaches "+other, func() bool {
			ctx, cancel := context.WithTimeout(k.t.Context(), time.Second)
			defer cancel()
			conn, err := k.c.Dial(ctx, host, "tcp", netip.AddrPortFrom(k.c.Addr(other), agentPort).String())
			if err == nil {
				conn.Close()
			}
			return err == nil
		})
	}
}

// saidOf are mpiup's own lines.
func saidOf(stderr string) string {
	var out []string
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "mpiup: ") {
			out = append(out, strings.TrimRight(line, "\n"))
		}
	}
	return strings.Join(out, "\n")
}
