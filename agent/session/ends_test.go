package session

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// speak is what scripts of bash use to speak PMI: "ask MESSAGE" prints the answer. knock connects where ranks have a port.
const speak = `
ask() { printf '%s\n' "$1" >&3; IFS= read -r -u 3 answer; echo "$2$answer"; }
knock() {
  [ -z "$PMI_PORT" ] && return
  exec 3<>"/dev/tcp/127.0.0.1/${PMI_PORT##*:}"
  printf 'cmd=initack pmiid=%s\n' "$PMI_ID" >&3
  for n in 1 2 3 4; do IFS= read -r -u 3 answer; done
}
init='cmd=init pmi_version=1 pmi_subversion=1'
knock
`

// bashLaunch is a job of one rank, a script of bash that speaks PMI.
func bashLaunch(pmi apiv1.Pmi, script string, args ...string) *apiv1.Launch {
	l := jobLaunch(0, 0, 1, "")
	l.Job.Pmi = pmi
	l.Apps[0].Argv = append([]string{"bash", "-c", speak + script, "rank"}, args...)
	l.Apps[0].Env = []string{"SPEAK=" + speak}
	return l
}

// A second process that says that it is the rank is told that it is not, whatever it asks for, and one line names both.
// What it asked for has not happened, the first one goes on, and after it another may be the rank.
func TestASecondProcess(t *testing.T) {
	second := `bash -c "$SPEAK"'
ask "$init" "second: "
ask "cmd=put kvsname=$1 key=stolen value=1" "second: "
ask "cmd=finalize" "second: "
[ -n "$PMI_PORT" ] && ask "cmd=abort exitcode=9" "second: "
:' second "$name"
`
	script := `
ask "$init" "first: "
ask "cmd=get_my_kvsname" "first: "
name=${answer##*kvsname=}
` + second + `
ask "cmd=get kvsname=$name key=stolen" "first: "
ask "cmd=put kvsname=$name key=own value=2" "first: "
ask "cmd=get kvsname=$name key=own" "first: "
ask "cmd=finalize" "first: "
bash -c "$SPEAK"'ask "$init" "next: "; ask "cmd=finalize" "next: "'
`
	for name, pmi := range map[string]apiv1.Pmi{"descriptor": apiv1.Pmi_PMI_FD, "port": apiv1.Pmi_PMI_PORT} {
		t.Run(name, func(t *testing.T) {
			c := newClient(t, newTable(t), '1', "life-1")
			c.dial(false)
			c.start(bashLaunch(pmi, script))
			seen := c.until(outputEnd)
			said := stdout(seen)
			for _, want := range []string{
				`first: cmd=response_to_init .* rc=0\n`,
				`second: cmd=response_to_init .* rc=-1 msg=rank_0_is_already_in_MPI_as_process_\d+\n(second: cmd=refused rc=-1 msg=\S+\n){2,3}first:`,
				`first: cmd=get_result rc=1 .*\nfirst: cmd=put_result rc=0\nfirst: cmd=get_result rc=0 found=TRUE value=2\n`,
				`first: cmd=finalize_ack rc=0\nnext: cmd=response_to_init .* rc=0\nnext: cmd=finalize_ack rc=0\n`,
			} {
				if !regexp.MustCompile(want).MatchString(said) {
					t.Errorf("it said %s\nwithout %s", said, want)
				}
			}
			if x := exitOf(seen); x.Code != 0 || x.Pmi != apiv1.PmiState_PMI_FINALIZED || x.Text != "" {
				t.Errorf("it ended with %v", x)
			}
			told := notices(seen)
			if len(told) != 1 || !regexp.MustCompile(`^rank 0 is already in MPI as process \d+ \(bash\), so process \d+ \(bash\)`).MatchString(told[0]) {
				t.Errorf("told %q", told)
			}
		})
	}
}

// Many second processes are told of once, and one that aborts over the first one's descriptor gets an answer when it is
// seen to wait for it, and none when it is not: that would be the first one's.
func TestManySecondProcesses(t *testing.T) {
	script := `
ask "$init" "first: "
for n in $(seq 70); do
  bash -c "$SPEAK"'printf "%s\n" "$init" >&3; IFS= read -r -u 3 answer; printf "cmd=abort exitcode=9\n" >&3'
done
bash -c "$SPEAK"'ask "$init" "waits: "; ask "cmd=abort exitcode=9 message=x" "waits: "'
ask "cmd=get_appnum" "first: "
ask "cmd=finalize" "first: "
`
	c := newClient(t, newTable(t), '1', "life-1")
	c.dial(false)
	c.start(bashLaunch(apiv1.Pmi_PMI_FD, script))
	seen := c.until(outputEnd)
	want := "waits: cmd=refused rc=-1 msg=another_process_is_in_MPI_for_this_rank\nfirst: cmd=appnum rc=0 appnum=0\nfirst: cmd=finalize_ack rc=0\n"
	if said := stdout(seen); !strings.HasSuffix(said, want) {
		t.Errorf("it said %s\nnot %s", said, want)
	}
	if x := exitOf(seen); x.Code != 0 || x.Pmi != apiv1.PmiState_PMI_FINALIZED {
		t.Errorf("it ended with %v", x)
	}
	if told := notices(seen); len(told) != 1 {
		t.Errorf("told %q", told)
	}
}

func notices(seen []*apiv1.Frame) (texts []string) {
	for _, f := range seen {
		if n := f.GetNotice(); n != nil {
			texts = append(texts, n.Text)
		}
	}
	return texts
}

// daemon is a process in a session of its own that begins when the rank's first process has ended, and goes on when the
// test says so: "until go".
const daemon = `
until_gone() { while [ -d "/proc/$first" ]; do :; done; }
go() { read -r <"$gate"; }
export first=$$ gate=$1
export -f until_gone go
background() { setsid bash -c "$SPEAK$1" & exit 0; }
`

// A rank ends when its first process and its client have, as the client does; daemons that were never in MPI end with it.
func TestEndsOfRanks(t *testing.T) {
	for _, tt := range []struct {
		name, script string
		speaks       bool   // an answer is awaited before the test goes on
		want         string // how the rank ends
		notice       string
	}{
		{"the client finalizes, and writes more", `background 'until_gone; ask "$init"; go; ask cmd=finalize; echo more'`,
			true, "code 0 signal 0 PMI_FINALIZED", ""},
		{"the client fails", `background 'until_gone; ask "$init"; go; exit 7'`,
			true, "code 7 signal 0 PMI_RUNNING", `^rank 0: process \d+ \(bash\), which was in MPI .* ended with exit code 7 without MPI_Finalize$`},
		{"the client fails after MPI", `background 'until_gone; ask "$init"; go; ask cmd=finalize; exit 7'`,
			true, "code 7 signal 0 PMI_FINALIZED", ""},
		{"the client is killed", `background 'until_gone; ask "$init"; go; kill -KILL $$'`,
			true, "code 0 signal 9 PMI_RUNNING", `^rank 0: process \d+ .* ended with signal 9 `},
		{"the client's end is its parent's to see", `background 'until_gone; bash -c "$SPEAK"'"'"'ask "$init"; go; exit 7'"'"'; :'`,
			true, "code 0 signal 0 PMI_RUNNING", `^rank 0: process \d+ .* ended without MPI_Finalize$`},
		{"the first process fails", `setsid bash -c "$SPEAK"'ask "$init"; exec sleep 1000' & go; exit 3`,
			true, "code 3 signal 0 PMI_RUNNING", ""},
		{"one client after the other", `background 'until_gone; ask "$init"; go; ask cmd=finalize; bash -c "$SPEAK"'"'"'ask "$init"; ask cmd=finalize'"'"'; :'`,
			true, "code 0 signal 0 PMI_FINALIZED", ""},
		{"a daemon beside the client", `sleep 1000 & background 'until_gone; ask "$init"; go; ask cmd=finalize'`,
			true, "code 0 signal 0 PMI_FINALIZED", ""},
		{"a daemon alone", `setsid sleep 1000 & exit 0`, false, "code 0 signal 0 PMI_NEVER", ""},
		{"a daemon without the output", `setsid sleep 1000 >/dev/null 2>&1 & exit 0`, false, "code 0 signal 0 PMI_NEVER", ""},
		{"a daemon after MPI", `setsid sleep 1000 >/dev/null 2>&1 & ask "$init"; ask cmd=finalize`, false, "code 0 signal 0 PMI_FINALIZED", ""},
	} {
		for name, pmi := range map[string]apiv1.Pmi{"descriptor": apiv1.Pmi_PMI_FD, "port": apiv1.Pmi_PMI_PORT} {
			t.Run(tt.name+" by "+name, func(t *testing.T) {
				c := newClient(t, newTable(t), '1', "life-1")
				c.dial(false)
				gate := newGate(t)
				c.start(bashLaunch(pmi, daemon+tt.script, gate))
				if tt.speaks {
					c.until(says("response_to_init"))
					if err := os.WriteFile(gate, []byte("go\n"), 0); err != nil {
						t.Fatal(err)
					}
				}
				begun := time.Now()
				seen := c.until(exited)
				x := exitOf(seen)
				if got := fmt.Sprintf("code %d signal %d %v", x.Code, x.Signal, x.Pmi); got != tt.want || x.StoppedByUs {
					t.Errorf("the rank ended with %s (%v), want %s", got, x, tt.want)
				}
				seen = append(seen, c.until(outputEnd)...)
				if d := time.Since(begun); d > mostLate {
					t.Errorf("the end took %v", d)
				}
				told := notices(seen)
				if tt.notice == "" && len(told) > 0 || tt.notice != "" && (len(told) != 1 || !regexp.MustCompile(tt.notice).MatchString(told[0])) {
					t.Errorf("told %q, want %s", told, tt.notice)
				}
			})
		}
	}
}

// mostLate is how long an end may take, on a busy machine: the wait for whoever may come to MPI is half a minute.
const mostLate = 20 * time.Second

// newGate is a pipe by name that somebody waits at.
func newGate(t *testing.T) string {
	t.Helper()
	gate := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	return gate
}

// says is a frame of output with a text.
func says(text string) func(*apiv1.Frame) bool {
	return func(f *apiv1.Frame) bool { return strings.Contains(stdout([]*apiv1.Frame{f}), text) }
}

// A stop, and a signal that is passed on, reach the client of a rank whose first process has ended.
func TestStopOfAClientAlone(t *testing.T) {
	c := newClient(t, newTable(t), '1', "life-1")
	c.dial(false)
	script := `background 'trap "echo got USR1" USR1; until_gone; ask "$init"; exec 4<>"$gate"; while :; do read -r -u 4; done'`
	c.start(bashLaunch(apiv1.Pmi_PMI_FD, daemon+script, newGate(t)))
	c.until(says("response_to_init"))
	c.send((&apiv1.Signal{Number: int32(syscall.SIGUSR1)}).Frame())
	c.until(says("got USR1"))
	if p := c.session().jobs.Process(0); p.Gone() || p.Pid() != p.Client() {
		t.Errorf("the rank is gone: %v, and is process %d of client %d", p.Gone(), p.Pid(), p.Client())
	}
	c.send((&apiv1.Stop{Why: "the test stops"}).Frame())
	x := exitOf(c.until(exited))
	if !x.StoppedByUs || x.Signal != int32(syscall.SIGTERM) && x.Signal != int32(syscall.SIGKILL) {
		t.Errorf("the rank ended with %v", x)
	}
	c.until(outputEnd)
}
