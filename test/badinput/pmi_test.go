package badinput

import (
	"strings"
	"testing"
)

// TestPMI are ranks whose PMI makes no sense: the rank is killed, the job fails with a line that
// names rank and host, and the agent goes on.
func TestPMI(t *testing.T) {
	a := startAgent(t, nil)
	runs(t, a)
	before := loadOf(t, a)
	const hello = `echo "cmd=init pmi_version=1 pmi_subversion=1" >&3; read line <&3; `
	const wait = `sleep 60`
	for _, tt := range []struct {
		name   string
		script string
		says   []string
	}{
		{"noise", `head -c 1000 /dev/urandom >&3; echo >&3; ` + wait, nil},
		{"an endless line", `head -c 9000000 /dev/zero | tr '\0' x >&3; ` + wait, nil},
		{"an endless line after init", hello + `head -c 9000000 /dev/zero | tr '\0' x >&3; ` + wait, nil},
		{"no command", hello + `echo "hello=world" >&3; ` + wait, nil},
		{"a command before init", `echo "cmd=barrier_in" >&3; ` + wait, nil},
		{"a PMI-2 length that is none", `echo "cmd=init pmi_version=2 pmi_subversion=0" >&3; read line <&3; printf '12ab34cmd=fullinit;' >&3; ` + wait, nil},
		{"a huge PMI-2 length", `echo "cmd=init pmi_version=2 pmi_subversion=0" >&3; read line <&3; printf '999999cmd=fullinit;' >&3; ` + wait, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := mpiup(t, nil, "run", "--mpi", "pmi1", "-n", "2", "--host", a.Addr+":2", "sh", "-c",
				`if [ $MPIUP_RANK = 1 ]; then `+tt.script+`; else sleep 60; fi`)
			t.Logf("%d: %s", e.Code, e.Stderr)
			e.check(t, 247, append(tt.says, "rank 1 on "+a.Addr+" broke the PMI protocol", "mpiup killed it", "PMI_FD")...)
			if e.Took.Seconds() > 40 {
				t.Errorf("it took %v", e.Took)
			}
			if strings.Contains(e.Stderr, "rank 0") {
				t.Errorf("rank 0 is named:\n%s", e.Stderr)
			}
		})
	}
	t.Cleanup(func() { runs(t, a); recovers(t, a, before) })
}

// TestUnknownPMICommand is answered, so that a library that asks for more than there is goes on.
func TestUnknownPMICommand(t *testing.T) {
	e := mpiup(t, nil, "run", "--mpi", "pmi1", "-n", "1", "sh", "-c",
		`echo "cmd=init pmi_version=1 pmi_subversion=1" >&3; read line <&3; echo "cmd=make_coffee" >&3; read line <&3; echo "$line"; exit 7`)
	t.Logf("%s%s", e.Stdout, e.Stderr)
	e.check(t, e.Code, "rank 0")
	if e.Code != 7 && e.Code != 247 {
		t.Errorf("code %d", e.Code)
	}
}
