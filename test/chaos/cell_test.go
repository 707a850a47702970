package chaos

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/credential"
	"github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
	"golang.org/x/sys/unix"
)

// cell is one fault in one phase of one job, on hosts of its own:
//
//	w0: ranks 0 and 1, what the fault hits; w1: rank 2, hit by what hits two; w2: rank 3, which is held; w3: a spare, where the
//	fault wants one
type cell struct {
	t        *testing.T
	library  string // "mpich" or "openmpi"
	dir      string // seen by hosts: where ranks and the test leave files for each other
	c        *netns.Cluster
	hosts    []string             // of the job, with the spare if there is one
	flags    []string             // of the launcher
	tls      bool                 // certificates of dir prove who is who, not the shared secret
	ca       credential.Authority // of these
	boxed    bool                 // the host that is hit has a memory cgroup of its own
	agents   map[string]*lab.Process
	job      *lab.Process
	phase    string       // that the job stands still in
	before   *lab.Process // the launcher before job, whose run it took over; nil: there was none
	program  string
	held     string // the host whose agent is stopped until release
	stays    bool   // the launcher must not end while the fault lasts
	watch    *watch
	wrong    []string           // what was not as expected
	forwards []*netns.Forwarder // of the hosts, where the fault wants them

	begun  time.Time // of the fault
	meter  *meter    // since then
	strict bool      // its times go to a page
}

// Hosts of a cell.
const (
	hit, second, late = "w0", "w1", "w2"
	spare             = "w3"
	guest             = "w4" // no host of the job: its agent is a member, if it is started
	launcherHost      = netns.Launcher
)

var hosts = []string{hit, second, late}

// newCell makes the hosts of a cell; no agent runs yet.
func newCell(t *testing.T, library string, more ...string) *cell {
	t.Helper()
	k := &cell{t: t, library: library, dir: t.TempDir(), hosts: slices.Concat(hosts, more), agents: map[string]*lab.Process{}, program: phases(t, library)}
	if err := os.Chmod(k.dir, 0o777); err != nil {
		t.Fatal(err)
	}
	var err error
	k.c, err = netns.Up(context.Background(), netns.Config{
		Hosts: slices.Concat(k.hosts, []string{guest}), DNS: true, Scratch: "64m", Share: []string{k.dir, world.dir, filepath.Dir(world.mpiup)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(k.end)
	k.publish()
	return k
}

// publish gives the headless service the hosts' addresses, by which their agents find each other.
func (k *cell) publish() {
	var all []netip.Addr
	for _, h := range k.everyHost() {
		all = append(all, k.c.Addr(h))
	}
	_, service, _ := strings.Cut(k.c.FQDN(hit), ".")
	k.c.DNS().Set(service, all...)
}

func (k *cell) everyHost() []string { return slices.Concat(k.hosts, []string{guest}) }

// met waits until the agent on the host that is hit knows every agent that runs for alive.
func (k *cell) met() {
	k.t.Helper()
	want := 0
	for host, a := range k.agents {
		if !ended(a) && host != k.held {
			want++
		}
	}
	k.until(fmt.Sprintf("%d members know each other", want), func() bool { return k.members() == want })
}

// members is how many members the agent on the host that is hit knows for alive, as its metrics say.
func (k *cell) members() int {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return k.c.Dial(ctx, hit, network, fmt.Sprintf("127.0.0.1:%d", httpPort))
		}}}
	resp, err := client.Get("http://" + hit + "/metrics")
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	_, rest, _ := strings.Cut(string(body), "\nmpiup_peers{state=\"alive\"} ")
	n, _ := strconv.Atoi(strings.Fields(rest + " 0")[0])
	return n
}

// trust are the flags of a role's commands that say whose they are.
func (k *cell) trust(role string) []string {
	if k.tls {
		return []string{"--tls-dir", filepath.Join(k.dir, role)}
	}
	return []string{"--key", world.key}
}

// end ends all that the cell started.
func (k *cell) end() {
	for _, job := range []*lab.Process{k.before, k.job} {
		if job != nil {
			_ = job.Cmd.Process.Kill() // it may have ended
			<-job.Done
			sound(k.t, "launcher", job.Stderr.String())
		}
	}
	for _, host := range k.everyHost() {
		if a := k.agents[host]; a != nil {
			_ = a.Cmd.Process.Kill()
			<-a.Done
			sound(k.t, "agent on "+host, a.Stderr.String())
			if k.t.Failed() {
				k.t.Logf("agent on %s:\n%s", host, summary(a.Stderr.String()))
			}
		}
	}
	if k.t.Failed() && k.job != nil {
		k.t.Logf("launcher:\n%s", summary(k.job.Stderr.String()))
	}
	if err := k.c.Close(); err != nil {
		k.t.Error(err)
	}
}

// start starts an agent as PID 1, with gossip and HTTP as in production, in place of the one there was, and waits until it can be reached. A container that is
// started again has its image's files in /tmp and /run, and what its pod's last one left in /dev/shm.
func (k *cell) start(names ...string) {
	k.t.Helper()
	for _, host := range names {
		if k.agents[host] != nil {
			k.empty(host, "/tmp/mpiup-0")
		}
		argv := append([]string{world.mpiup, "agent", "-v"}, k.trust("agent")...)
		a, err := lab.Start(k.c.RunInit(context.Background(), host, argv...))
		if err != nil {
			k.t.Fatal(err)
		}
		k.agents[host] = a
		if k.boxed && host == hit {
			k.undone(k.c.LimitMemory(hit, 1<<40))
		}
	}
	for _, host := range names {
		if err := k.agents[host].Until(k.agents[host].Stderr, "agent is ready"); err != nil {
			k.t.Fatal(err)
		}
	}
}

// empty removes files, named as sh does, of a host that is to be a new container or a new pod.
func (k *cell) empty(host, files string) {
	k.t.Helper()
	if err := k.c.Boot(host); err != nil {
		k.t.Fatal(err)
	}
	if out, err := k.c.Command(context.Background(), host, "sh", "-c", "rm -rf "+files).CombinedOutput(); err != nil {
		k.t.Fatalf("rm on %s: %v: %s", host, err, out)
	}
}

// restart starts the agents that have ended.
func (k *cell) restart() {
	k.t.Helper()
	for _, host := range k.hosts {
		a := k.agents[host]
		if a != nil && ended(a) {
			k.start(host)
		}
	}
}

func ended(p *lab.Process) bool {
	select {
	case <-p.Done:
		return true
	default:
		return false
	}
}

// kill ends an agent and, since it is PID 1, all on its host.
func (k *cell) kill(host string) {
	k.t.Helper()
	k.agents[host].Signal(k.t, syscall.SIGKILL)
	<-k.agents[host].Done
}

// launcher starts a launcher of a job that stands still in a phase.
func (k *cell) launcher(phase string) *lab.Process {
	k.t.Helper()
	list := hit + ":2," + second + ":1," + late + ":1"
	if len(k.hosts) > len(hosts) {
		list += "," + spare + ":2"
	}
	argv := slices.Concat([]string{world.mpiup, "run", "-n", "4", "--host", list, "--stdin", "none", "-vv"},
		k.trust("launcher"), k.flags, []string{"--", k.program, phase, k.dir})
	p, err := lab.Start(k.c.Command(context.Background(), netns.Launcher, argv...))
	if err != nil {
		k.t.Fatal(err)
	}
	return p
}

// limit is far beyond what a cell waits for anything.
const limit = time.Minute

// fault tells what is not as expected, and keeps it for the cell's result.
func (k *cell) fault(format string, args ...any) {
	k.t.Helper()
	text := fmt.Sprintf(format, args...)
	k.wrong = append(k.wrong, text)
	k.t.Error(text)
}

// fatal is fault for what ends the cell.
func (k *cell) fatal(format string, args ...any) {
	k.t.Helper()
	k.fault(format, args...)
	k.t.FailNow()
}

// opened waits until a launcher has opened a session on a host.
func (k *cell) opened(host string) {
	k.t.Helper()
	k.until("a session on "+host, func() bool { return strings.Contains(k.agents[host].Stderr.String(), "msg=session ") })
}

// arrived waits until all ranks have come to where the phase holds them, in their first start or a later one.
func (k *cell) arrived(start int) {
	k.t.Helper()
	for r := range 4 {
		name := fmt.Sprintf("at.%d", r)
		if start > 0 {
			name += fmt.Sprintf(".%d", start)
		}
		k.until(fmt.Sprintf("rank %d is there", r), func() bool {
			_, err := os.Stat(filepath.Join(k.dir, name))
			return err == nil
		})
	}
}

// until waits for a condition; the launcher may not end before it.
func (k *cell) until(what string, ok func() bool) {
	k.t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for late := time.After(limit); !ok(); {
		select {
		case <-tick.C:
		case <-k.job.Done:
			if !ok() {
				k.fatal("the launcher has ended before: %s\n%s", what, summary(k.job.Stderr.String()))
			}
		case <-late:
			k.fatal("not within %v: %s", limit, what)
		}
	}
}

// result waits for the launcher's end.
func (k *cell) result() lab.Result {
	k.t.Helper()
	select {
	case <-k.job.Done:
	case <-time.After(limit):
		k.fatal("the launcher does not end; it said:\n%s", summary(k.job.Stderr.String()))
	}
	return k.job.Wait(k.t)
}

// asleep waits until every thread of a host's ranks sleeps, all but the held one in a fence or in MPI_Finalize.
func (k *cell) asleep(host string) {
	k.t.Helper()
	k.until("the ranks of "+host+" sleep", func() bool {
		for _, p := range k.ranks(host) {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
			if _, state, ok := strings.Cut(string(b), ") "); err != nil || !ok || state[0] != 'S' {
				return false
			}
		}
		return true
	})
}

// ranks are the processes of the job on a host.
func (k *cell) ranks(host string) (out []netns.Process) {
	all, err := k.c.Processes(host)
	if err != nil {
		return nil // no PID 1, so no process
	}
	for _, p := range all {
		if strings.HasPrefix(p.Argv, k.program) {
			out = append(out, p)
		}
	}
	return out
}

// release lets the job go on.
func (k *cell) release() {
	k.t.Helper()
	k.free()
	if err := os.WriteFile(filepath.Join(k.dir, "go"), nil, 0o666); err != nil {
		k.t.Fatal(err)
	}
}

// free lets the agent go on that is stopped, and starts the one that is late.
func (k *cell) free() {
	k.t.Helper()
	if k.held != "" && !ended(k.agents[k.held]) {
		k.agents[k.held].Signal(k.t, syscall.SIGCONT)
	}
	k.held = ""
	if k.agents[late] == nil {
		k.start(late)
	}
}

// signalRank signals a rank on the host that is hit.
func (k *cell) signalRank(sig syscall.Signal) {
	k.t.Helper()
	for _, p := range k.ranks(hit) {
		b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.Pid))
		if err == nil && slices.Contains(strings.Split(string(b), "\x00"), "MPIUP_RANK=1") {
			if err := unix.Kill(p.Pid, sig); err != nil {
				k.t.Fatal(err)
			}
			return
		}
	}
	k.t.Fatal("rank 1 does not run")
}

// lasts is the length of a fault, which may not end the launcher.
func (k *cell) lasts(d time.Duration) {
	k.t.Helper()
	select {
	case <-time.After(d):
	case <-k.job.Done:
		k.fatal("the launcher ended with %d after %v of the fault:\n%s", k.job.Cmd.ProcessState.ExitCode(), time.Since(k.begun), summary(k.job.Stderr.String()))
	}
}

// whole checks that no line of the job's output is lost or doubled, and that every rank came to its end. Ranks that are started
// again begin anew.
func (k *cell) whole(restarts int) {
	k.t.Helper()
	next, begun, over := map[string]int{}, map[string]int{}, map[string]int{}
	for line := range strings.Lines(k.job.Stdout.String()) {
		f := strings.Fields(line)
		switch {
		case len(f) == 2 && f[1] == "end" && over[f[0]] <= restarts: // which the first ones may have written too
			over[f[0]]++
		case len(f) == 3 && f[1] == fmt.Sprint(next[f[0]]):
			next[f[0]]++
		case len(f) == 3 && f[1] == "0" && begun[f[0]] < restarts:
			next[f[0]] = 1
			begun[f[0]]++
		case len(f) > 0 && begun[f[0]] < restarts && strings.HasPrefix(fmt.Sprintf("%s %d %0200d\n", f[0], next[f[0]], 0), strings.TrimSuffix(line, "\n")):
			// what the rank had written when it was killed
		default:
			k.fatal("%.60q, where ranks were to write %v", line, next)
		}
	}
	if len(over) != 4 {
		k.fault("%d of 4 ranks came to their end", len(over))
	}
}

// handedOver is whole where a launcher has taken the run over:
// each rank goes on once at another line: with those that the launcher before had just written again, or, where it says so, without some.
func (k *cell) handedOver() {
	k.t.Helper()
	next, over, turned := map[string]int{}, map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(k.before.Stdout.String()) {
		f := strings.Fields(line)
		switch {
		case !strings.HasSuffix(line, "\n"): // it was killed while it wrote this
		case len(f) == 2 && f[1] == "end":
			over[f[0]] = true
		case len(f) == 3 && f[1] == fmt.Sprint(next[f[0]]):
			next[f[0]]++
		default:
			k.fatal("%.60q where the rank was to write %d", line, next[f[0]])
		}
	}
	fragments := 4
	lossy := strings.Contains(k.job.Stderr.String(), "is lost: ")
	for line := range strings.Lines(k.job.Stdout.String()) {
		f := strings.Fields(line)
		switch {
		case len(f) == 2 && f[1] == "end":
			over[f[0]] = true
		case len(f) == 3 && f[1] == fmt.Sprint(next[f[0]]):
			next[f[0]]++
		case len(f) == 3 && !turned[f[0]] && isNumber(f[1], next[f[0]], lossy):
			next[f[0]], _ = strconv.Atoi(f[1])
			next[f[0]]++
		case lossy && fragments > 0: // what is kept of a rank may begin within a line
			fragments--
			continue
		default:
			k.fatal("%.60q, where ranks were to write %v", line, next)
		}
		turned[f[0]] = true
	}
	if len(over) != 4 {
		k.fault("%d of 4 ranks came to their end", len(over))
	}
}

// isNumber says that text is a number before that of the next line, or, where lines are lost, any.
func isNumber(text string, next int, lossy bool) bool {
	n, err := strconv.Atoi(text)
	return err == nil && (n < next || lossy)
}

// next checks that the agents run another job.
func (k *cell) next() {
	k.t.Helper()
	if err := os.WriteFile(filepath.Join(k.dir, "go"), nil, 0o666); err != nil {
		k.t.Fatal(err)
	}
	k.flags = nil
	k.job = k.launcher("free")
	if r := k.result(); r.Code != 0 || strings.Count(r.Stdout, "end\n") != 4 {
		k.fault("the next job ended with %d and wrote %q:\n%s", r.Code, r.Stdout, summary(r.Stderr))
	}
}
