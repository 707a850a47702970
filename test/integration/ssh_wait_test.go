package integration

import (
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/netns"
)

// Users' own loops around ssh, before the agent is there and after: 255 until then, in words or
// without, and then the command's own code. No agent ever runs on w1, and nobody has no name.
func TestSSHBeforeTheAgent(t *testing.T) {
	t.Parallel()
	l := hosted(t).apart(t, netns.Config{Hosts: []string{"w0", "w1"}})
	for _, c := range []struct {
		name   string
		args   []string
		stderr []string // parts; none: nothing is said
	}{
		{"no agent", []string{"-o", "ConnectTimeout=5", "w1", "true"},
			[]string{"host w1: ", "connection refused", "waited 5s (-o ConnectTimeout) for 1 host"}},
		{"no agent, batch mode", []string{"-o", "BatchMode=yes", "-oConnectTimeout=5", "w1", "true"}, []string{"connection refused"}},
		{"no agent, quiet", []string{"-q", "-o", "ConnectTimeout=5", "w1", "true"}, nil},
		{"no agent, quiet by the other option", []string{"-o", "LogLevel=QUIET", "-o", "ConnectTimeout=5", "w1", "true"}, nil},
		{"no name", []string{"-o", "ConnectTimeout=5", "nobody", "true"}, []string{"host nobody: "}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := l.ssh(t, job{}, c.args...).Wait(t)
			if r.Fails(t, 255, c.stderr...); r.Stdout != "" || c.stderr == nil && r.Stderr != "" {
				t.Errorf("printed %q and %q", r.Stdout, r.Stderr)
			}
		})
	}
	t.Run("loops", func(t *testing.T) {
		loop := func(options string) *running {
			return l.command(t, l.outfit(t), "sh", "-c", "until ssh "+options+" w0 true; do echo again; sleep 0.1; done; ssh w0 'exit 3'; echo code $?")
		}
		patient, quick := loop(""), loop("-q -o ConnectTimeout=5")
		quick.Says(t, "again")
		agent := l.agent(t, "w0", container{})
		if r := quick.Wait(t); r.Code != 0 || !strings.HasSuffix(r.Stdout, "again\ncode 3\n") || r.Stderr != "" {
			t.Errorf("the quick loop ended with %d, printed %q and %q", r.Code, r.Stdout, r.Stderr)
		}
		if r := patient.Wait(t); r.Code != 0 || r.Stdout != "code 3\n" {
			t.Errorf("the patient loop ended with %d, printed %q and %q", r.Code, r.Stdout, r.Stderr)
		}
		select {
		case <-agent.Done:
			t.Errorf("the agent has ended: %s", agent.Stderr)
		default:
		}
	})
}

// A host that the job does not have is waited for less long, and said to be none of it.
func TestSSHToAStranger(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	hostfile := l.file(t, "w0 slots=1\nw1 slots=1\n")
	r := l.mounted(t, hostfile, "ssh", job{}, "nobody", "true")
	r.Fails(t, 255, "host nobody: ", "waited 10s (-o ConnectTimeout) for 1 host", "nobody is not among the hosts of /etc/mpi/hostfile")
	if r := l.mounted(t, hostfile, "ssh", job{}, "w2", "hostname"); r.Code != 0 || r.Stdout != "w2\n" || r.Stderr != "" {
		t.Errorf("a host of none of the lists that is there: %d, %q, %q", r.Code, r.Stdout, r.Stderr)
	}
}
