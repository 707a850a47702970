package integration

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/need"
	"github.com/mpiup/mpiup/test/netns"
)

// knock is a bash script that says the right words as rank 0, with the namespace and port of its
// arguments or environment (pmix-wire.md 2.2), and prints the answer in hex.
const knock = `
uri=${1:-$PMIX_SERVER_URI41} ns=${2:-$PMIX_NAMESPACE}
addr=${uri##*/}
exec 3<>/dev/tcp/${addr%:*}/${addr##*:} || exit
len=$((${#ns} + 45))
printf -v size '\\x%02x\\x%02x\\x00\\x00' $((len % 256)) $((len / 256))
printf '\xff\xff\xff\xff\xff\xff\xff\xff'$size'\x00\x00\x00\x00native\x00\x00\x00\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00'$ns'\x00\x00\x00\x00\x004.2.2rc2\x00v41\x00\x01hash\x00\x00' >&3
echo "answer:$(timeout 20 head -c 8 <&3 2>/dev/null | od -An -tx1 | tr -d ' \n')."`

// knockPMI is the same for PMI-1 over a port.
const knockPMI = `
addr=${1:-$PMI_PORT} id=${2:-$PMI_ID}
exec 3<>/dev/tcp/${addr%:*}/${addr##*:} || exit
echo "cmd=initack pmiid=$id" >&3
echo "answer:$(timeout 20 head -n 1 <&3 2>/dev/null)."`

const (
	pmixAnswer = "answer:0000000000000000."
	pmiAnswer  = "answer:cmd=initack rc=0."
	noAnswer   = "answer:."
)

// answered checks what came of knocks, which takes no longer than strangers have.
func answered(t *testing.T, who, got, want string, took time.Duration) {
	t.Helper()
	if strings.TrimSpace(got) != want || took > 15*time.Second {
		t.Errorf("%s got %q after %v, want %q", who, got, took, want)
	}
}

// A rank's children and daemons speak as it does.
func TestDescendantsSpeak(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	need.Program(t, "bash", "bash")
	for _, p := range []struct{ flag, knock, want string }{{"pmix", knock, pmixAnswer}, {"pmi-port", knockPMI, pmiAnswer}} {
		for _, c := range []struct{ who, script string }{
			{"a rank", `exec bash -c "$1"`},
			{"a child", `bash -c "$1"; exit 0`},
			{"a grandchild", `sh -c 'bash -c "$1"; exit 0' sh "$1"; exit 0`},
			{"one in a process session of its own", `setsid -w bash -c "$1"; exit 0`},
			{"a daemon", `mkfifo $2; (setsid sh -c 'bash -c "$1" >$2' sh "$1" $2 &); cat $2; exit 0`},
		} {
			t.Run(p.flag+", "+c.who, func(t *testing.T) {
				t.Parallel()
				r := l.run(t, job{hosts: "w0:1", args: []string{"--mpi", p.flag, "-n", "1", "sh", "-c", c.script, "sh",
					p.knock, l.folder(t) + "/fifo"}})
				answered(t, c.who, r.Stdout, p.want, r.Took)
			})
		}
	}
}

// environment is what a process outside that only looks can know of one.
func environment(t *testing.T, pid int) map[string]string {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for kv := range strings.SplitSeq(string(b), "\x00") {
		name, value, _ := strings.Cut(kv, "=")
		env[name] = value
	}
	return env
}

// on runs bash on a host, beside the agent and not under it.
func (l *lab) on(t *testing.T, host string, uid int, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testlab.Bound)
	defer cancel()
	cmd := l.cluster.Command(ctx, host, append([]string{"bash", "-c"}, args...)...)
	cmd.UID = uid
	r, err := testlab.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	return r.Wait(t)
}

// Strangers on a host know a rank's whole environment and get no answer.
func TestStrangersGetNoAnswer(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	need.Program(t, "bash", "bash")
	for i, p := range []struct{ flag, knock, port, secret string }{
		{"pmix", knock, "PMIX_SERVER_URI41", "PMIX_NAMESPACE"}, {"pmi-port", knockPMI, "PMI_PORT", "PMI_ID"},
	} {
		t.Run(p.flag, func(t *testing.T) {
			t.Parallel()
			name := fmt.Sprintf("98765.%d4321", i)
			run := l.start(t, job{hosts: "w0:1", args: []string{"--mpi", p.flag, "-n", "1", "sleep", name}})
			defer func() {
				run.Cmd.Process.Signal(syscall.SIGTERM)
				run.Wait(t)
			}()
			testlab.Eventually(t, "the rank runs", func() bool { return len(l.matching(t, "w0", "sleep "+name)) == 1 })
			env := environment(t, l.matching(t, "w0", "sleep "+name)[0])
			port, secret := env[p.port], env[p.secret]
			if port == "" || secret == "" {
				t.Fatalf("the rank has %v", env)
			}
			pretend := "export MPIUP_SESSION=" + env["MPIUP_SESSION"] + "\n"
			r := l.on(t, "w0", 0, p.knock, "bash", port, secret)
			answered(t, "the same user", r.Stdout, noAnswer, r.Took)
			r = l.on(t, "w0", 0, pretend+"bash -c \"$3\" bash $1 $2", "bash", port, secret, p.knock)
			answered(t, "the same user with the session's variable", r.Stdout, noAnswer, r.Took)
			r = l.on(t, "w0", 65534, p.knock, "bash", port, secret)
			answered(t, "another user", r.Stdout, noAnswer, r.Took)
			r = l.run(t, job{hosts: "w0:1", args: []string{"--mpi", "pmix", "-n", "1", "bash", "-c", pretend + p.knock, "bash", port, secret}})
			answered(t, "another job's rank", r.Stdout, noAnswer, r.Took)
			r = l.on(t, "w1", 0, p.knock, "bash", port, secret)
			if strings.Contains(r.Stdout, "answer") {
				t.Errorf("on another host: %q", r.Stdout)
			}
		})
	}
}

// Agents that see less of /proc than root does.
func TestWhoSpeaksWhereProcHides(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	need.Program(t, "bash", "bash")
	need.Program(t, "setpriv", "util-linux")
	const drop = "setpriv --reuid 1000 --regid 1000 --clear-groups "
	for _, tt := range []struct {
		name   string
		agent  string // what it is started by, as root
		rank   string
		other  int    // a user whose socket is refused
		same   int    // the user of the ranks
		answer string // to a stranger that is of that user
	}{
		{"hidepid", "mount -o remount,hidepid=2 /proc; grep -q hidepid= /proc/mounts || exit; exec " + drop +
			"--no-new-privs --bounding-set -all ", "exec sh -c", 0, 1000, noAnswer},
		// Without CAP_SYS_PTRACE, as container runtimes have it, root does not see what other users
		// have open: a rank that gives root up is told from strangers by its user only.
		{"root without ptrace", "exec setpriv --bounding-set -sys_ptrace ", "exec " + drop + "sh -c", 0, 1000, pmixAnswer},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l := l.apart(t, netns.Config{Hosts: []string{"w0"}})
			cmd := l.cluster.RunInit(t.Context(), "w0", "sh", "-c", tt.agent+`"$@"`, "sh", l.bin, "agent", "--key", l.key)
			agent, err := testlab.Start(cmd)
			if err != nil {
				t.Fatal(err)
			}
			if err := agent.Until(agent.Stderr, "agent is ready"); err != nil {
				t.Fatal(err)
			}
			dir := l.folder(t)
			script := tt.rank + ` 'bash -c "$1"; echo $PMIX_SERVER_URI41 $PMIX_NAMESPACE >$2/new; mv $2/new $2/env; exec sleep 1000' sh "$1" "$2"`
			run := l.start(t, job{hosts: "w0:1", args: []string{"--mpi", "pmix", "-n", "1", "sh", "-c", script, "sh", knock, dir}})
			defer func() {
				run.Cmd.Process.Signal(syscall.SIGTERM)
				run.Wait(t)
			}()
			var env []byte
			testlab.Eventually(t, "the rank has spoken", func() bool {
				env, err = os.ReadFile(dir + "/env")
				return err == nil
			})
			if err := run.Until(run.Stdout, pmixAnswer); err != nil {
				t.Errorf("the rank got no answer: %v\n%s", err, agent.Stderr)
			}
			known := strings.Fields(string(env))
			r := l.on(t, "w0", tt.other, knock, "bash", known[0], known[1])
			answered(t, "another user", r.Stdout, noAnswer, r.Took)
			r = l.on(t, "w0", tt.same, knock, "bash", known[0], known[1])
			answered(t, "a stranger of the rank's user", r.Stdout, tt.answer, r.Took)
		})
	}
}

// 500 strangers that came first and stay do not keep an MPI program from starting.
func TestRanksAmongManyStrangers(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	need.Program(t, "bash", "bash")
	hello, dir := l.openMPI(t, "hello"), l.folder(t)
	script := `if [ $PMIX_RANK = 0 ]; then echo $PMIX_SERVER_URI41 >$1/new; mv $1/new $1/uri; fi
		while ! [ -e $1/go ]; do sleep 0.05; done; exec $2`
	run := l.start(t, job{hosts: "w0:2", args: append(append([]string{"-n", "2"}, ompiFlags...), "sh", "-c", script, "sh", dir, hello)})
	var uri []byte
	testlab.Eventually(t, "the ranks run", func() (ok bool) {
		var err error
		uri, err = os.ReadFile(dir + "/uri")
		return err == nil
	})
	addr := strings.TrimSpace(string(uri[strings.LastIndexByte(string(uri), '/')+1:]))
	host, port, _ := strings.Cut(addr, ":")
	cmd := l.cluster.Command(t.Context(), "w0", "bash", "-c", `ulimit -n 4096
		for i in {1..500}; do exec {fd}<>/dev/tcp/$1/$2 || exit; done; echo there; exec sleep 1000`, "bash", host, port)
	strangers, err := testlab.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); <-strangers.Done })
	if err := strangers.Until(strangers.Stdout, "there"); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	if err := os.WriteFile(dir+"/go", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	r := run.Wait(t)
	if took := time.Since(begun); r.Code != 0 || !strings.Contains(r.Stdout, "rank 1 of 2") || took > 20*time.Second {
		t.Errorf("ended with %d after %v and printed %q\n%s", r.Code, took, r.Stdout, r.Stderr)
	}
}
