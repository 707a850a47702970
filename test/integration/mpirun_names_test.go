package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// called runs the binary under another launcher's name, which finds its key as it would in a pod.
func (l *lab) called(t *testing.T, name string, j job, args ...string) result {
	t.Helper()
	return l.calling(t, name, j, args...).Wait(t)
}

// calling is called without waiting for its end.
func (l *lab) calling(t *testing.T, name string, j job, args ...string) *running {
	t.Helper()
	j.env = append(j.env, "MPIUP_KEY="+l.key)
	return l.command(t, j, append([]string{l.link(t, name)}, args...)...)
}

// link is mpiup by another name.
func (l *lab) link(t *testing.T, name string) string {
	t.Helper()
	link := filepath.Join(filepath.Dir(l.key), name)
	if err := os.Symlink(l.bin, link); err != nil && !os.IsExist(err) {
		t.Fatal(err)
	}
	return link
}

// mounted runs a command as called does, with a file at /etc/mpi/hostfile, where the operators
// mount it. Another mount namespace is another container, whose name no other has: under one name
// the newer would take the older one's hosts over.
func (l *lab) mounted(t *testing.T, hostfile, name string, j job, args ...string) result {
	t.Helper()
	const script = `set -e
mount -t tmpfs tmpfs /mnt
cp -a /etc /mnt/etc
rm -f /mnt/etc/hosts /mnt/etc/resolv.conf
cp /etc/hosts /etc/resolv.conf /mnt/etc
mkdir /mnt/etc/mpi
cp "$1" /mnt/etc/mpi/hostfile
mount --bind /mnt/etc /etc
hostname launcher-$$
shift
exec "$@"`
	l.called(t, name, job{}, "--version") // makes the link
	j.env = append(j.env, "MPIUP_KEY="+l.key)
	link := filepath.Join(filepath.Dir(l.key), name)
	return l.command(t, j, append([]string{"unshare", "-m", "-u", "sh", "-c", script, "sh", hostfile, link}, args...)...).Wait(t)
}

// file is a file of the test that all hosts see.
func (l *lab) file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(l.folder(t), "file")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// inOrder is the lines of a text in order.
func inOrder(text string) string {
	lines := strings.SplitAfter(text, "\n")
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// Ranks say where they are: each on its own host, whichever family's line it is.
const where = `echo $MPIUP_RANK@$(hostname)`

func TestMpirun(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	dir := l.folder(t)
	hostfile := l.file(t, "w0 slots=2\nw1\nw1\nw2 slots=1 max_slots=4\n")
	ranged := l.file(t, "w[0] slots=1\nw[2-2] slots=2\n")
	appfile := l.file(t, "# programs\n-np 1 -x A=1 printenv A\n-np 2 -wdir "+dir+" pwd\n")
	rankfile := l.file(t, "rank 1=w0 slot=0\nrank 0=w2 slot=0\n")
	bindir, tune := l.folder(t), l.file(t, "-x V=1 --mca btl self\nosc = y\n")
	if err := os.WriteFile(filepath.Join(bindir, "prog"), []byte("#!/bin/sh\necho prog of ${0%/*}\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	three := []string{"-H", "w0:2,w1:2,w2:2"}
	for _, c := range []struct {
		name   string
		args   []string
		env    []string
		stdin  string
		stdout string // lines, sorted
		stderr string // a part
		code   int
	}{
		{name: "by slot", args: append(three, "sh", "-c", where), stdout: "0@w0\n1@w0\n2@w1\n3@w1\n4@w2\n5@w2\n"},
		{name: "by node", args: append(three, "--map-by", "node", "-np", "4", "sh", "-c", where), stdout: "0@w0\n1@w1\n2@w2\n3@w0\n"},
		{name: "numbered by node", args: append(three, "--rank-by", "node", "-np", "4", "sh", "-c", where), stdout: "0@w0\n1@w1\n2@w0\n3@w1\n"},
		{name: "hosts in a range", args: []string{"-H", "w[0-2]:2", "-np", "5", "sh", "-c", where}, stdout: "0@w0\n1@w0\n2@w1\n3@w1\n4@w2\n"},
		{name: "hosts in a range of a file", args: []string{"--hostfile", ranged, "sh", "-c", where}, stdout: "0@w0\n1@w2\n2@w2\n"},
		{name: "one a host", args: append(three, "-N", "1", "sh", "-c", where), stdout: "0@w0\n1@w1\n2@w2\n"},
		{name: "hostfile", args: []string{"--hostfile", hostfile, "sh", "-c", where}, stdout: "0@w0\n1@w0\n2@w1\n3@w1\n4@w2\n"},
		{name: "of the hostfile", args: []string{"--hostfile", hostfile, "-H", "w2:2,w0", "sh", "-c", where}, stdout: "0@w2\n1@w2\n2@w0\n"},
		{name: "too few slots", args: []string{"-H", "w0,w1", "-np", "3", "true"}, code: 240, stderr: "--oversubscribe"},
		{name: "oversubscribed", args: []string{"-H", "w0,w1", "-np", "4", "--oversubscribe", "sh", "-c", where}, stdout: "0@w0\n1@w0\n2@w1\n3@w1\n"},
		{name: "tags", args: []string{"-H", "w0,w1", "--tag-output", "sh", "-c", "hostname; hostname >&2"}, stdout: "[1,0]<stdout>:w0\n[1,1]<stdout>:w1\n",
			stderr: "[1,0]<stderr>:w0\n"},
		{name: "merged", args: []string{"-H", "w0", "--tag-output", "--merge-stderr-to-stdout", "sh", "-c", "echo e >&2"}, stdout: "[1,0]<stderr>:e\n"},
		{name: "variables", args: []string{"-H", "w0", "-x", "A", "-x", `B="q"`, "--mca", "btl", "self", "sh", "-c", `echo "$A $B $OMPI_MCA_btl $OMPI_MCA_pml $OMPI_MCA_plm_rsh_args $C"`},
			env: []string{"A=x y", "C=no", "OMPI_MCA_pml=ob1", "OMPI_MCA_plm_rsh_args=-o"}, stdout: "x y \"q\" self ob1  \n"},
		{name: "one that is not set", args: []string{"-H", "w0", "-x", "NOPE", "true"}, stderr: `mpirun (mpiup): warning: could not find environment variable "NOPE"`},
		{name: "several programs", args: []string{"-H", "w0,w1,w2", "-np", "1", "-x", "A=1", "sh", "-c", `echo a$A@$(hostname)`, ":", "-np", "2", "-wdir", dir, "sh", "-c", `echo b$A@$(hostname) $PWD`},
			stdout: "a1@w0\nb@w1 " + dir + "\nb@w2 " + dir + "\n"},
		{name: "programs with hosts of their own", args: []string{"-np", "1", "-H", "w2", "sh", "-c", where, ":", "-np", "2", "-H", "w0:2", "sh", "-c", where, ":", "-np", "1", "-H", "w1", "sh", "-c", where},
			stdout: "0@w2\n1@w0\n2@w0\n3@w1\n"},
		{name: "appfile", args: []string{"-H", "w0,w1,w2", "--app", appfile}, stdout: dir + "\n" + dir + "\n1\n"},
		{name: "input", args: []string{"-H", "w0,w1", "--stdin", "1", "sh", "-c", "cat"}, stdin: "in\n", stdout: "in\n"},
		{name: "code", args: []string{"-H", "w0,w1", "sh", "-c", "exit 9"}, code: 9, stderr: "exited with code 9"},
		{name: "signal", args: []string{"-H", "w0", "sh", "-c", "kill -9 $$"}, code: 137},
		{name: "codes that pass", args: []string{"-H", "w0,w1", "--mca", "orte_abort_on_non_zero_status", "0", "sh", "-c", "exit $((MPIUP_RANK+3))"}},
		{name: "a rank that fails ends nothing", args: []string{"-H", "w0,w1", "--enable-recovery", "sh", "-c", "if [ $MPIUP_RANK = 0 ]; then kill -9 $$; fi; sleep 1; echo on"}, stdout: "on\n"},
		{name: "a place to look", args: []string{"-H", "w0", "--path", bindir, "prog"}, stdout: "prog of " + bindir + "\n"},
		{name: "its rank in the name", args: []string{"-H", "w0:2", "--index-argv-by-rank", "sh", "-c", `tr '\0' ' ' </proc/$$/cmdline | cut -c1-5`}, stdout: "sh-0 \nsh-1 \n"},
		{name: "parameter files", args: []string{"-H", "w0", "--tune", tune, "--mca", "osc", "x", "sh", "-c", "echo $V $OMPI_MCA_btl $OMPI_MCA_osc"}, stdout: "1 self x\n"},
		{name: "pid", args: []string{"-H", "w0", "--report-pid", "/dev/null", "true"}},
		{name: "all the environment", args: []string{"-H", "w0", "--fwd-environment", "sh", "-c", "echo $A ${K_MPI_JOB_ROLE-none}"}, env: []string{"A=a", "K_MPI_JOB_ROLE=launcher"}, stdout: "a none\n"},
		{name: "time limit", args: []string{"-H", "w0", "--timeout", "1", "sleep", "100"}, code: 110},
		{name: "time limit in the environment", args: []string{"-H", "w0", "sleep", "100"}, env: []string{"MPIEXEC_TIMEOUT=1"}, code: 110},
		{name: "no program", args: []string{"-H", "w0", "/no/such/program"}, code: 246, stderr: "/no/such/program"},
		{name: "no directory", args: []string{"-H", "w0", "-wdir", "/no/such", "true"}, code: 247, stderr: "/no/such"},
		{name: "unknown option", args: []string{"-H", "w0", "--bogus", "true"}, code: 240, stderr: "mpirun (mpiup): unknown option --bogus"},
		{name: "patience", args: []string{"-H", "nobody", "true"}, env: []string{"MPIUP_WAIT=1"}, code: 242, stderr: "nobody"},
		{name: "no patience", args: []string{"-H", "w0", "true"}, env: []string{"MPIUP_WAIT=soon"}, code: 240, stderr: "mpirun (mpiup): MPIUP_WAIT:"},
		{name: "protocol", args: []string{"-H", "w0", "sh", "-c", "echo ${PMI_RANK-none}"}, env: []string{"MPIUP_MPI=pmi1"}, stdout: "0\n"},
		{name: "no protocol", args: []string{"-H", "w0", "true"}, env: []string{"MPIUP_MPI=pmi9"}, code: 240, stderr: `mpirun (mpiup): MPIUP_MPI is "pmi9"`},
		{name: "no framework's variables", args: []string{"-H", "w0", "sh", "-c", "echo ${RANK-none}"}, stdout: "none\n"},
		{name: "a framework's variables", args: []string{"-H", "w0,w1", "sh", "-c", "echo $RANK of $WORLD_SIZE, ${HOROVOD_RANK-none}"}, env: []string{"MPIUP_ENV=torch"}, stdout: "0 of 2, none\n1 of 2, none\n"},
		{name: "no framework", args: []string{"-H", "w0", "true"}, env: []string{"MPIUP_ENV=pytorch"}, code: 240, stderr: `mpirun (mpiup): MPIUP_ENV: "pytorch" is no framework; write one of auto`},
		{name: "the plan", args: []string{"-H", "w0,w1", "--display-map", "true"},
			stdout: "\n\n\n\n \tProcess OMPI jobid: [1,1] App: 0 Process rank: 0 Bound: N/A\n \tProcess OMPI jobid: [1,1] App: 0 Process rank: 1 Bound: N/A\n"},
		{name: "the plan of Open MPI 5", args: []string{"-H", "w0,w1", "--display", "map", "--bind-to", "none", "true"},
			stdout: "\n\n\n\n\n        Process jobid: mpiup@1 App: 0 Process rank: 0 Bound: N/A\n        Process jobid: mpiup@1 App: 0 Process rank: 1 Bound: N/A\n"},
		{name: "bindings of Open MPI 5", args: []string{"-H", "w0,w1", "--display", "bind", "--bind-to", "none", "true"}, stderr: "] Rank 1 is not bound (or bound to all available processors)\n"},
		{name: "tags of Open MPI 5", args: []string{"-H", "w0", "--output", "tag", "echo", "a"}, stdout: "[1,0]<stdout>: a\n"},
		{name: "hosts in their order", args: []string{"-H", "w1,w0,w1", "--map-by", "seq", "sh", "-c", where}, stdout: "0@w1\n1@w0\n2@w1\n"},
		{name: "hosts of a file in their order", args: []string{"--hostfile", hostfile, "--map-by", "seq", "sh", "-c", where}, stdout: "0@w0\n1@w1\n2@w1\n3@w2\n"},
		{name: "hosts of a rankfile", args: []string{"--rankfile", rankfile, "sh", "-c", where}, stdout: "0@w2\n1@w0\n"},
		{name: "nothing is started", args: []string{"-H", "w0,w1", "--do-not-launch", "false"}, stdout: "2 ranks on 2 hosts: false\nw0  rank 0  (1 of 1 slot)\nw1  rank 1  (1 of 1 slot)\n"},
		{name: "version", args: []string{"--version"}, stdout: "\nReport bugs to https://github.com/mpiup/mpiup/issues\nmpirun (Open MPI) 4.1."},
		{name: "what is done", args: []string{"-v", "-H", "w0", "--novm", "true"}, stderr: "mpirun (mpiup): read as Open MPI's command line: only Open MPI has -H; by the rules of Open MPI 4.1: nothing says otherwise\nmpirun (mpiup): --novm has no effect\n"},
		{name: "what would be missed", args: []string{"-H", "w0", "--show-progress", "true"}, stderr: "mpirun (mpiup): warning: --show-progress has no effect: mpiup ps shows ranks and their pids\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := l.called(t, "mpirun", job{env: c.env, stdin: strings.NewReader(c.stdin)}, c.args...)
			if got := inOrder(r.Stdout); r.Code != c.code || !strings.HasPrefix(got, c.stdout) || c.stdout == "" && got != "" || !strings.Contains(r.Stderr, c.stderr) {
				t.Errorf("ended with %d\n%s%s", r.Code, got, r.Stderr)
			}
		})
	}
}

func TestMpiexec(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	dir := l.folder(t)
	hostfile, config := l.file(t, "w0:2\nw1:1 # one\n"), l.file(t, "-n 1 -env A 1 printenv A\n-n 2 -wdir "+dir+" pwd\n")
	for _, c := range []struct {
		name   string
		args   []string
		env    []string
		stdout string
		stderr string
		code   int
	}{
		{name: "one rank", args: []string{"-hosts", "w1,w0", "sh", "-c", where}, stdout: "0@w1\n"},
		{name: "one at a time", args: []string{"-n", "4", "-hosts", "w0,w1", "-l", "hostname"}, stdout: "[0] w0\n[1] w1\n[2] w0\n[3] w1\n"},
		{name: "one rank's output", args: []string{"-n", "3", "-hosts", "w0,w1", "-output-from", "1", "sh", "-c", where}, stdout: "1@w1\n"},
		{name: "groups of hosts", args: []string{"-n", "2", "-ppn", "1", "-hosts-group", "w[0-1]", "-prepend-pattern", "%t %r:", "hostname"}, stdout: "0 0:w0\n0 1:w1\n"},
		{name: "a tool", args: []string{"-n", "3", "-hosts", "w0", "-gtool", "env V=tool:1-2", "sh", "-c", "echo $MPIUP_RANK $V"}, stdout: "0\n1 tool\n2 tool\n"},
		{name: "a rank that fails ends nothing", args: []string{"-n", "2", "-hosts", "w0,w1", "-disable-auto-cleanup", "sh", "-c", "if [ $MPIUP_RANK = 0 ]; then exit 3; fi; sleep 1; echo on"}, stdout: "on\n", code: 3, stderr: "exited with code 3"},
		{name: "blocks", args: []string{"-n", "6", "-ppn", "2", "-hosts", "w0,w1", "-l", "hostname"}, stdout: "[0] w0\n[1] w0\n[2] w1\n[3] w1\n[4] w0\n[5] w0\n"},
		{name: "file", args: []string{"-n", "5", "-f", hostfile, "-l", "hostname"}, stdout: "[0] w0\n[1] w0\n[2] w1\n[3] w0\n[4] w0\n"},
		{name: "environment", args: []string{"-hosts", "w0", "-genv", "K", "V", "-env", "L=W", "sh", "-c", `echo "$A $K $L $HOME $HOSTNAME $K_MPI_JOB_ROLE $HYDRA_HOST_FILE"`},
			env: []string{"A=x y", "HOSTNAME=l", "K_MPI_JOB_ROLE=launcher", "HYDRA_HOST_FILE=/none"}, stdout: "x y V W /root w0  \n"},
		{name: "no environment", args: []string{"-hosts", "w0", "-genvnone", "-genv", "K", "V", "sh", "-c", `echo "$A$K"`}, env: []string{"A=1"}, stdout: "V\n"},
		{name: "some of it", args: []string{"-hosts", "w0", "-genvlist", "A", "sh", "-c", `echo "$A$B"`}, env: []string{"A=1", "B=2"}, stdout: "1\n"},
		{name: "several programs", args: []string{"-hosts", "w0,w1", "-n", "1", "-env", "A", "1", "sh", "-c", `echo a$A@$(hostname)`, ":", "-n", "1", "sh", "-c", `echo b$A@$(hostname)`},
			stdout: "a1@w0\nb@w1\n"},
		{name: "programs with hosts of their own", args: []string{"-host", "w1", "-n", "2", "sh", "-c", where, ":", "-host", "w0", "-n", "1", "sh", "-c", where}, env: []string{"MPIUP_FAMILY=hydra"},
			stdout: "0@w1\n1@w1\n2@w0\n"},
		{name: "file of programs", args: []string{"-hosts", "w0", "-configfile", config}, stdout: dir + "\n" + dir + "\n1\n"},
		{name: "code", args: []string{"-hosts", "w0,w1", "-n", "2", "sh", "-c", "exit 6"}, code: 6},
		{name: "unknown option", args: []string{"-ppn", "2", "-bogus", "x", "true"}, code: 240, stderr: "mpiexec (mpiup): unknown option -bogus"},
		{name: "the other family's", args: []string{"-ppn", "2", "-x", "A", "true"}, code: 240, stderr: "it is Open MPI's, and this is read as Hydra's"},
		{name: "version", args: []string{"-ppn", "2", "-version"}, stdout: "    Process Manager:                         mpiup\n    Version:                                 4."},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := l.called(t, "mpiexec", job{env: append(c.env, "HERE=1")}, c.args...)
			if got := inOrder(r.Stdout); r.Code != c.code || !strings.HasPrefix(got, c.stdout) || c.stdout == "" && got != "" || !strings.Contains(r.Stderr, c.stderr) {
				t.Errorf("ended with %d\n%s%s", r.Code, got, r.Stderr)
			}
		})
	}
}

// What the operators tell the launcher is enough, for every family and version.
func TestOperatorsHosts(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	ompi, hydra := l.file(t, "w1 slots=2\nw2 slots=2\n"), l.file(t, "w1:2\nw2:2\n")
	const both = "0@w1\n1@w1\n2@w2\n3@w2\n"
	for _, c := range []struct {
		name, applet string
		env, args    []string
		mount        string
		family       string // and why
		want         string
	}{
		{"Open MPI", "mpirun", []string{"OMPI_MCA_orte_default_hostfile=" + ompi, "OMPI_MCA_orte_keep_fqdn_hostnames=true", "OMPI_MCA_orte_set_default_slots=2"}, nil, "",
			"Open MPI's command line: OMPI_MCA_orte_default_hostfile is set", both},
		{"MPICH", "mpiexec", []string{"HYDRA_HOST_FILE=" + hydra}, []string{"-n", "4"}, "", "Hydra's command line: HYDRA_HOST_FILE is set", both},
		{"MPICH, round again", "mpiexec", []string{"HYDRA_HOST_FILE=" + hydra}, []string{"-n", "6"}, "", "HYDRA_HOST_FILE is set", both + "4@w1\n5@w1\n"},
		{"MPICH, one at a time", "mpiexec", []string{"HYDRA_HOST_FILE=" + hydra}, []string{"-n", "4", "-ppn", "1"}, "", "only Hydra has -ppn", "0@w1\n1@w2\n2@w1\n3@w2\n"},
		{"Intel MPI", "mpirun", []string{"I_MPI_HYDRA_HOST_FILE=" + hydra, "I_MPI_PERHOST=2"}, nil, "", "Hydra's command line: I_MPI_HYDRA_HOST_FILE is set", both},
		{"the mounted file alone", "mpirun", nil, []string{"-np", "4"}, ompi, "Open MPI's command line: nothing says otherwise", both},
		{"the mounted file and a list", "mpirun", nil, []string{"-H", "w2:2,w1:1"}, ompi, "only Open MPI has -H", "0@w2\n1@w2\n2@w1\n"},
		{"Open MPI's variable for Open MPI 5", "prterun", []string{"OMPI_MCA_orte_default_hostfile=" + ompi}, nil, "", "it is called prterun", both},
		{"Open MPI's variable for Hydra", "mpiexec.hydra", []string{"OMPI_MCA_orte_default_hostfile=" + ompi}, []string{"-n", "4"}, "", "it is called mpiexec.hydra", both},
		{"Hydra's variable for Open MPI", "orterun", []string{"HYDRA_HOST_FILE=" + hydra}, nil, "", "it is called orterun", both},
		{"PRRTE's own", "mpirun", []string{"PRTE_MCA_prte_default_hostfile=" + ompi}, nil, "", "PRTE_MCA_prte_default_hostfile is set", both},
		{"the mounted file before a variable", "mpirun", []string{"OMPI_MCA_orte_default_hostfile=/no/such"}, nil, ompi, "OMPI_MCA_orte_default_hostfile is set", both},
		{"prterun", "prterun", nil, []string{"--map-by", "ppr:1:node"}, ompi, "it is called prterun", "0@w1\n1@w2\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			args := append(append([]string{"-v"}, c.args...), "sh", "-c", where)
			j := job{env: append(c.env, "HERE=1")}
			var r result
			if c.mount != "" {
				r = l.mounted(t, c.mount, c.applet, j, args...)
			} else {
				r = l.called(t, c.applet, j, args...)
			}
			if got := inOrder(r.Stdout); r.Code != 0 || got != c.want || !strings.Contains(r.Stderr, c.family) {
				t.Errorf("ended with %d\n%s%s", r.Code, got, r.Stderr)
			}
		})
	}
	r := l.mounted(t, ompi, "mpirun", job{}, "-H", "w0", "true")
	r.Fails(t, 240, "mpirun (mpiup): the host list: host w0 is not one of the job's 2 hosts, w1 and so on (the operator's hostfile)")
}

// Open MPI's layout, with a copy on the terminal.
func TestOutputFilename(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for _, modifier := range []string{"", ":nojobid", ":nocopy"} {
		dir := l.folder(t)
		r := l.called(t, "mpirun", job{}, "-H", "w0:6,w1:6", "-np", "11", "--output-filename", dir+modifier, "sh", "-c", "hostname; echo e >&2")
		if r.Code != 0 || (r.Stdout == "") != (modifier == ":nocopy") {
			t.Errorf("%s: ended with %d, the terminal has %q", modifier, r.Code, r.Stdout)
		}
		below := dir + "/1"
		if modifier == ":nojobid" {
			below = dir
		}
		for rank, want := range map[int]string{0: "w0\n", 10: "w1\n"} {
			for stream, want := range map[string]string{"stdout": want, "stderr": "e\n"} {
				file := fmt.Sprintf("%s/rank.%02d/%s", below, rank, stream)
				if got, err := os.ReadFile(file); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v", file, got, err)
				}
			}
		}
	}
}

// Open MPI 5's layouts have the job's name, and the terminal has a copy (5.0.8, 5.0.10) unless :nocopy is said.
func TestOutputOfOpenMPI5(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	for option, pattern := range map[string]string{"--output dir=": "/prterun-*-[0-9]*@1/rank.%02d/std%s", "--output file=": ".prterun-*-[0-9]*@1.%02d.%s", "--output-filename ": ".prterun-*-[0-9]*@1.%02d.%s"} {
		to := l.folder(t) + "/f"
		args := append(strings.Fields("-H w0:6,w1:6 -np 11 "+option+to), "sh", "-c", "hostname; echo e >&2")
		copied := strings.Repeat("w0\n", 6) + strings.Repeat("w1\n", 5)
		if r := l.called(t, "mpirun", job{env: []string{"MPIUP_FAMILY=openmpi5"}}, args...); r.Code != 0 || inOrder(r.Stdout) != copied {
			t.Errorf("%s: ended with %d, the terminal has %q: %s", option, r.Code, r.Stdout, r.Stderr)
		}
		for rank, want := range map[int]string{0: "w0\n", 10: "w1\n"} {
			for stream, want := range map[string]string{"out": want, "err": "e\n"} {
				files, err := filepath.Glob(fmt.Sprintf(to+pattern, rank, stream))
				if err != nil || len(files) != 1 {
					t.Fatalf("%s: %q, %v", option, files, err)
				}
				if got, err := os.ReadFile(files[0]); err != nil || string(got) != want {
					t.Errorf("%s: %q, %v", files[0], got, err)
				}
			}
		}
	}
}

// Programs of both libraries are wired up, and their library says whose line it is where nothing
// else does.
func TestMpirunOfMPIPrograms(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	ompi, mpich := l.openMPI(t, "hello"), l.program(t, "hello")
	quick := []string{"--mca", "pml", "ob1", "--mca", "btl", "self,vader,tcp", "--mca", "mpi_yield_when_idle", "1"}
	hostfile := l.file(t, "w0 slots=2\nw1 slots=2\n")
	for _, c := range []struct {
		name, applet string
		args         []string
		says         string
	}{
		{"Open MPI", "mpirun", append(append([]string{"-np", "4", "--allow-run-as-root"}, quick...), ompi), "only Open MPI has --allow-run-as-root"},
		{"Open MPI, by its library", "mpiexec", []string{"-n", "4", ompi}, "Open MPI's command line: its library is what " + ompi + " needs"},
		{"MPICH", "mpiexec", []string{"-n", "4", "-ppn", "2", mpich}, "only Hydra has -ppn"},
		{"MPICH, by its library", "mpirun", []string{"-n", "4", mpich}, "Hydra's command line: its library is what " + mpich + " needs"},
		{"MPICH by a port", "mpiexec.hydra", []string{"-n", "4", "-pmi-port", mpich}, "it is called mpiexec.hydra"},
		{"MPICH with Open MPI's line", "orterun", []string{"-np", "4", "--oversubscribe", mpich}, "it is called orterun"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := l.mounted(t, hostfile, c.applet, job{env: []string{"OMPI_MCA_btl=self,vader,tcp", "OMPI_MCA_pml=ob1"}}, append([]string{"-v"}, c.args...)...)
			for _, line := range []string{"rank 0 of 4 on w0, 0 of 2 there", "rank 3 of 4 on w1, 1 of 2 there"} {
				if r.Code != 0 || !strings.Contains(r.Stdout, line) || !strings.Contains(r.Stderr, c.says) {
					t.Errorf("ended with %d, without %q or %q\n%s%s", r.Code, line, c.says, r.Stdout, r.Stderr)
				}
			}
		})
	}
	aborts := l.openMPI(t, "abort")
	if r := l.called(t, "mpirun", job{}, append(append([]string{"-np", "4", "-H", "w0:2,w1:2"}, quick...), aborts, "42")...); r.Code != 42 {
		t.Errorf("MPI_Abort's 42 became %d: %s", r.Code, r.Stderr)
	}
}

// Hydra's files, which the ranks of a host may share.
func TestOutfilePattern(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	dir := l.folder(t)
	r := l.called(t, "mpiexec", job{dir: dir}, "-hosts", "w0,w1", "-ppn", "2", "-n", "4", "-outfile-pattern", "o/%h", "-errfile-pattern", dir+"/e.%p.%r", "sh", "-c", "echo $MPIUP_RANK; hostname >&2")
	if r.Code != 0 || r.Stdout+r.Stderr != "" {
		t.Errorf("ended with %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	for file, want := range map[string]string{"o/w0": "0\n1\n", "o/w1": "2\n3\n", "e.0.1": "w0\n", "e.1.2": "w1\n"} {
		if got, err := os.ReadFile(filepath.Join(dir, file)); err != nil || inOrder(string(got)) != want {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
}

// What of the launcher's environment ranks get depends on whose line it is; over all stands what the
// worker's container has of its own.
func TestEnvironmentByFamily(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	launchers := []string{"MINE=1", "OMPI_MINE=2", "OMPI_MCA_btl=self", "OMPI_MCA_orte_keep_fqdn_hostnames=true", "OMPI_MCA_plm_rsh_args=-o", "OMPI_MCA_ess_base_jobid=1",
		"OMPI_MCA_orte_hnp_uri=u", "OMPI_MCA_pmix_server_uri=u", "PMIX_MCA_gds=hash", "PMIX_SERVER_URI2=u", "PRTE_MINE=3", "PRTE_MCA_plm=ssh",
		"K_MPI_JOB_ROLE=launcher", "KUBERNETES_PORT=x", "WEB_SERVICE_HOST=x", "WEB_PORT_80_TCP=x", "NVIDIA_VISIBLE_DEVICES=", "LD_LIBRARY_PATH=/launcher", "HYDRA_LAUNCH_EXTRA_ARGS=x", "I_MPI_HYDRA_ENV=x", "I_MPI_DEBUG=4"}
	names := make([]string, len(launchers))
	for i, kv := range launchers {
		names[i], _, _ = strings.Cut(kv, "=")
	}
	script := "for v in " + strings.Join(names, " ") + `; do eval "[ -z \"\${$v+x}\" ]" || printf '%s ' $v; done; echo "$HOME $PATH"`
	workers := l.exec(t, job{}, "w0", "--", "sh", "-c", `echo "$HOME $PATH"`).Wait(t).Stdout
	for _, c := range []struct {
		name string
		argv []string
		want string
	}{
		{"run", []string{l.bin, "run", "--mpi", "none", "--host", "w0", "-n", "1", "-x", "MINE", "sh", "-c", script}, "MINE "},
		{"Open MPI", []string{"mpirun", "-H", "w0", "sh", "-c", script}, "OMPI_MINE OMPI_MCA_btl PMIX_MCA_gds PRTE_MINE "},
		{"Hydra", []string{"mpiexec.hydra", "-n", "1", "-hosts", "w0", "-genvexcl", "I_MPI_DEBUG", "sh", "-c", script}, "MINE OMPI_MINE OMPI_MCA_btl OMPI_MCA_orte_keep_fqdn_hostnames OMPI_MCA_plm_rsh_args OMPI_MCA_ess_base_jobid OMPI_MCA_orte_hnp_uri OMPI_MCA_pmix_server_uri PMIX_MCA_gds PRTE_MINE PRTE_MCA_plm "},
		{"Hydra, none", []string{"mpiexec.hydra", "-hosts", "w0", "-genvnone", "sh", "-c", script}, ""},
	} {
		j := job{env: append([]string{"MPIUP_MPI=none"}, launchers...)}
		var r result
		if c.argv[0] == l.bin {
			j.env = append(j.env, "MPIUP_KEY="+l.key)
			r = l.command(t, j, c.argv...).Wait(t)
		} else {
			r = l.called(t, c.argv[0], j, c.argv[1:]...)
		}
		if r.Code != 0 || r.Stdout != c.want+workers {
			t.Errorf("%s: ended with %d, ranks have\n%snot\n%s%s%s", c.name, r.Code, r.Stdout, c.want, workers, r.Stderr)
		}
	}
}
