package badinput

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/elf"
	"github.com/mpiup/mpiup/test/lab"
)

func write(t *testing.T, dir, name, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCommandLine(t *testing.T) {
	dir := t.TempDir()
	badLine := write(t, dir, "badline", "w0 slots=1\nw1 slots=two\n", 0o644)
	double := write(t, dir, "double", "w0\n# w1\nw0\n", 0o644)
	zero := write(t, dir, "zero", "\nw0 slots=0\n", 0o644)
	binaryFile := write(t, dir, "binary", "\xf2\xcb\x00\xff\n", 0o644)
	badPolicy := write(t, dir, "badpolicy", "allow run launcher\ndeny exce *\n", 0o644)
	noPolicy := write(t, dir, "nopolicy", "# allow run launcher\n", 0o644)
	for _, tt := range []struct {
		name string
		args string
		code int
		says []string
	}{
		{"unknown command", "bogus", 240, []string{`"bogus"`, "--help"}},
		{"unknown flag", "run --bogus true", 240, []string{"--bogus", "--help"}},
		{"no program", "run -n 2", 240, []string{"no program", "mpiup run -n 4"}},
		{"a number that is none", "run -n x true", 240, []string{`"x" is not a number`}},
		{"no ranks", "run -n 0 true", 240, []string{"-n", "out of range"}},
		{"duplicate host", "run --host w0,w1,w0 true", 240, []string{"w0 is named twice", "w0:2"}},
		{"zero slots", "run --host w0:0 true", 240, []string{"w0: 0 slots"}},
		{"an empty list", "run --host , true", 240, []string{"name is missing"}},
		{"hostfile missing", "run --hostfile /nope true", 240, []string{"/nope", "no such file"}},
		{"hostfile a directory", "run --hostfile " + dir + " true", 240, []string{"is a directory"}},
		{"hostfile bad line", "run --hostfile " + badLine + " true", 240, []string{"line 2", "w1", `"two"`}},
		{"hostfile duplicate", "run --hostfile " + double + " true", 240, []string{"line 3", "line 1", "w0"}},
		{"hostfile zero slots", "run --hostfile " + zero + " true", 240, []string{"line 2", "w0: 0 slots"}},
		{"hostfile binary", "run --hostfile " + binaryFile + " true", 240, []string{"line 1", "no text"}},
		{"both lists", "run --host w0 --hostfile " + double + " true", 240, []string{"--host and --hostfile"}},
		{"more ranks than slots", "run --host w0:1,w1:1 -n 3 true", 240, []string{"3 ranks", "2 slots", "--oversubscribe"}},
		{"a time that is none", "run --timeout soon true", 240, []string{"--timeout", `"soon"`, "30s"}},
		{"a negative wait", "run --wait -3 true", 240, []string{"--wait", "negative"}},
		{"restarts that are no number", "run --max-restarts often true", 240, []string{"--max-restarts", `"often"`, "0 to 10000"}},
		{"fewer restarts than none", "run --max-restarts -1 true", 240, []string{"--max-restarts", `"-1"`, "0 to 10000"}},
		{"too many restarts", "run --max-restarts 10001 true", 240, []string{"--max-restarts", `"10001"`, "0 to 10000"}},
		{"torchrun: restarts that are no number", "torchrun --max-restarts=often train.py", 240, []string{"--max-restarts", "often", "0 to 10000"}},
		{"mpirun: restarts that are no number", "mpirun --max-restarts often true", 240, []string{"--max-restarts", `"often"`, "0 to 10000"}},
		{"spares that are no number", "run --max-restarts 1 --spares few true", 240, []string{"--spares", `"few"`}},
		{"fewer spares than one", "run --max-restarts 1 --spares -1 true", 240, []string{"--spares", `"-1"`, "out of range"}},
		{"spares without restarts", "run --spares 1 true", 240, []string{"--spares 1", "add --max-restarts"}},
		{"no host but spares", "run --max-restarts 1 --spares 2 --host w0:1,w1:1 true", 240, []string{"--spares 2", "2 hosts", "none is left for ranks"}},
		{"a relative checkpoint directory", "run --checkpoint-dir saved true", 240, []string{"--checkpoint-dir", `"saved"`, "absolute"}},
		{"no checkpoint directory", "run --checkpoint-dir= true", 240, []string{"--checkpoint-dir", `""`, "absolute"}},
		{"a checkpoint directory that cannot be made", "run --checkpoint-dir /proc/nope true", 247, []string{"--checkpoint-dir", "/proc/nope", "rank 0", "mount a volume"}},
		{"a checkpoint directory that is a file", "run --checkpoint-dir " + badLine + " true", 247, []string{"--checkpoint-dir", badLine, "rank 0"}},
		{"a signal that asks nobody", "run --preempt-signal KILL true", 240, []string{"--preempt-signal", `"KILL"`, "use TERM"}},
		{"a signal by number", "run --preempt-signal 9 true", 240, []string{"--preempt-signal", `"9"`, "use TERM"}},
		{"no signal", "run --preempt-signal= true", 240, []string{"--preempt-signal", `""`, "use TERM"}},
		{"an empty second program", "run -n 1 true :", 240, []string{"program 2"}},
		{"a variable without name", "run -x =3 true", 240, []string{"-x", "VAR"}},
		{"exec: flags behind the host", "exec w0 --wait 2 true", 240, []string{"--wait", "before"}},
		{"exec: no command", "exec w0", 240, []string{"what is to run on w0"}},
		{"agent: insecure and not loopback", "agent --insecure --listen 0.0.0.0", 240, []string{"loopback"}},
		{"agent: insecure, its pages not loopback", "agent --insecure --http 0.0.0.0:7612", 240, []string{"loopback", "--http 0.0.0.0:7612"}},
		{"agent: insecure, its pages on all addresses", "agent --insecure --http :7600", 240, []string{"loopback", "--http :7600"}},
		{"run: insecure, its metrics not loopback", "run --insecure --metrics 0.0.0.0:7613 --host 127.0.0.2 -n 1 true", 240, []string{"loopback", "--metrics 0.0.0.0:7613"}},
		{"agent: no such port", "agent --port 99999", 240, []string{"99999"}},
		{"agent: address of another machine", "agent --listen 192.0.2.1", 240, []string{"192.0.2.1", "--listen"}},
		{"agent: policy missing", "agent --policy /nope", 240, []string{"policy", "/nope", "no such file"}},
		{"agent: policy a directory", "agent --policy " + dir, 240, []string{"policy", "is a directory"}},
		{"agent: policy without a name", "agent --policy=", 240, []string{"--policy", "empty"}},
		{"agent: policy bad line", "agent --policy " + badPolicy, 240, []string{badPolicy + ", line 2", `"exce"`, "run, exec, shell, copy, spawn, look or *"}},
		{"agent: policy that allows nothing", "agent --policy " + noPolicy, 240, []string{noPolicy, "allow run"}},
		{"agent: no such start", "agent --deny exec,ssh", 240, []string{"--deny exec,ssh", `"ssh"`, "shell"}},
		{"agent: nothing is left", "agent --deny run --deny exec,shell", 240, []string{"--deny run,exec,shell", "nobody"}},
		{"agent: two policies", "agent --allow run --deny exec", 240, []string{"--allow and --deny exclude each other"}},
		{"agent: key missing", "agent --key /nope", 244, []string{"/nope", "no such file"}},
		{"agent: key and certificates", "agent --key /nope --tls-dir /nope", 244, []string{"--key and --tls-dir"}},
		{"tls-dir missing", "agent --tls-dir /nope", 244, []string{"/nope/tls.crt"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			mpiup(t, nil, strings.Fields(tt.args)...).check(t, tt.code, tt.says...)
		})
	}
}

// TestLaunchersLines are command lines of mpirun and mpiexec with files and hosts that do not fit.
func TestLaunchersLines(t *testing.T) {
	dir := t.TempDir()
	operators := []string{"OMPI_MCA_orte_default_hostfile=" + write(t, dir, "operators", "w0.svc slots=2\nw1.svc slots=2\n", 0o644)}
	blank := write(t, dir, "blank", "# nobody\n", 0o644)
	user := write(t, dir, "user", "w0 slots=2 rack=3\n", 0o644)
	hydra := write(t, dir, "hydra", "w0:1\nw1:1\nw0:1\n", 0o644)
	cpus := write(t, dir, "cpus", "w0 0\nw1 1,z\n", 0o644)
	twice := write(t, dir, "twice", "rank 0=w0 slot=0\nrank 0=w1 slot=0\n", 0o644)
	app := write(t, dir, "app", "-np 1 true\n-np one true\n", 0o644)
	for _, tt := range []struct {
		name string
		args string
		env  []string
		says []string
	}{
		{"a host that is not in the job", "mpirun -H w7 true", operators, []string{"host w7", "not one of the job's 2 hosts", "w0.svc"}},
		{"a host that is not in the hostfile", "mpirun --hostfile " + user + "x -H w7 true", nil, []string{user + "x", "no such file"}},
		{"a word of a hostfile", "mpirun --hostfile " + user + " true", nil, []string{"line 1", "w0", `"rack="`}},
		{"an empty hostfile", "mpirun --hostfile " + blank + " true", nil, []string{blank, "no host"}},
		{"a hostfile that is a directory", "mpirun --hostfile " + dir + " true", nil, []string{dir, "is a directory"}},
		{"Hydra's host again", "mpiexec -f " + hydra + " -n 3 true", nil, []string{"line 3", "w0", "named again"}},
		{"more lines than there are", "mpirun --map-by seq -H w0,w1 -np 3 true", nil, []string{"3 ranks", "2 hosts"}},
		{"no order of hosts", "mpirun --map-by seq true", nil, []string{"--map-by seq", "0 hosts"}},
		{"CPUs of a line", "mpirun --map-by seq --hostfile " + cpus + " true", nil, []string{cpus + " line 2", `"z"`}},
		{"a rank twice", "mpirun --rankfile " + twice + " true", nil, []string{"line 2", "rank 0", "line 1"}},
		{"a relative host", "mpirun -H +n9 true", nil, []string{"+n9"}},
		{"a number in a file of programs", "mpirun -H w0 --app " + app, nil, []string{app, "line 2", `"one"`}},
		{"no file of programs", "mpiexec -configfile /nope", nil, []string{"/nope", "no such file"}},
		{"the other family's option", "mpiexec -ppn 1 --mca a b true", nil, []string{"--mca", "Open MPI's", "MPIUP_FAMILY"}},
		{"no family", "mpirun true", []string{"MPIUP_FAMILY=lam"}, []string{`"lam"`, "openmpi", "hydra"}},
		{"a parameter twice", "mpirun --mca btl tcp --mca btl self true", nil, []string{"btl", `"tcp" already`}},
		{"a limit in the environment", "mpirun true", []string{"MPIEXEC_TIMEOUT=soon"}, []string{"MPIEXEC_TIMEOUT", `"soon"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			mpiup(t, tt.env, strings.Fields(tt.args)...).check(t, 240, tt.says...)
		})
	}
}

// TestRestartsInTheEnvironment are what platforms and pods say of restarts and checkpoints.
func TestRestartsInTheEnvironment(t *testing.T) {
	for _, tt := range []struct{ env, says string }{
		{"MPIUP_RESTART_COUNT=often", `"often"`},
		{"MPIUP_RESTART_COUNT=-1", `"-1"`},
		{"JOBSET_EXECUTION_ATTEMPT=-2", `"-2"`},
		{"JOBSET_RESTART_ATTEMPT=1.5", `"1.5"`},
		{"SLURM_RESTART_COUNT=99999999999999999999", `"99999999999999999999"`},
		{"MPIUP_PREEMPT_SIGNAL=9", `"9"`},
		{"MPIUP_CHECKPOINT_DIR=saved", `"saved"`},
	} {
		t.Run(tt.env, func(t *testing.T) {
			t.Parallel()
			name, _, _ := strings.Cut(tt.env, "=")
			mpiup(t, []string{tt.env}, "run", "true").check(t, 240, name, tt.says)
		})
	}
}

func TestNoSecret(t *testing.T) {
	none := []string{"MPIUP_KEY="}
	mpiup(t, none, "agent").check(t, 244, "no job secret", "--key FILE", "mpiup keygen FILE")
	mpiup(t, append(none, "KUBERNETES_SERVICE_HOST=10.96.0.1"), "agent").check(t, 244, "no job secret", "MPI Operator", "/etc/mpiup", "--key")
	mpiup(t, none, "run", "--host", "w0", "true").check(t, 244, "host w0", "no job secret")
	mpiup(t, none, "exec", "w0", "--", "true").check(t, 244, "host w0", "no job secret")
	mpiup(t, none, "peers").check(t, 241, "no run of yours is on this machine alone", "no secret is here", "--key FILE")
}

// TestPrograms are programs that cannot run, on the embedded agent and on one that is reached.
func TestPrograms(t *testing.T) {
	a := startAgent(t, nil, "--http", "off")
	dir := t.TempDir()
	other := "arm64"
	if runtime.GOARCH == other {
		other = "amd64"
	}
	for _, tt := range []struct {
		name    string
		program []string
		says    []string
		code    int // 0: 246
	}{
		{"not on PATH", []string{"no-such-program"}, []string{"no-such-program", "not found on PATH"}, 0},
		{"no such file", []string{"/nope/a.out"}, []string{"/nope/a.out", "not found"}, 0},
		{"not executable", []string{write(t, dir, "plain", "#!/bin/sh\n", 0o644)}, []string{"not executable", "chmod +x"}, 0},
		{"other architecture", []string{write(t, dir, "other", elf.Foreign(), 0o755)}, []string{"built for " + other}, 0},
		{"no interpreter", []string{write(t, dir, "script", "#!/nope/python\n", 0o755)}, []string{"/nope/python", "interpreter"}, 0},
		{"empty", []string{write(t, dir, "empty", "", 0o755)}, []string{"empty file"}, 0},
		{"no program", []string{write(t, dir, "text", "just text\n", 0o755)}, []string{"#!"}, 0},
		{"a directory", []string{dir}, []string{"is a directory"}, 0},
		{"no working directory", []string{"--wdir", "/nope/dir", "true"}, []string{"/nope/dir", "working directory"}, 247},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := mpiup(t, nil, append([]string{"run", "-n", "2", "--host", a.Addr + ":2"}, tt.program...)...)
			code := cmp.Or(tt.code, 246)
			e.check(t, code, append(tt.says, "rank ", a.Addr)...)
			e = mpiup(t, nil, append([]string{"run", "-n", "2"}, tt.program...)...)
			e.check(t, code, append(tt.says, "rank ")...)
		})
	}
	mpiup(t, nil, "exec", a.Addr, "--", "no-such-program").check(t, 246, "the command on "+a.Addr, "no-such-program")
}

// TestMisreadLines: an Open MPI line that is refused is not said to be Hydra's, though Hydra would take it; of a line that was read as Hydra's it is
// said that Open MPI takes it.
func TestMisreadLines(t *testing.T) {
	for _, tt := range []struct {
		args  string
		other bool
	}{
		{"mpirun -n 1 -bind-to core:2 true", false}, {"mpirun -n 1 -map-by socket:2 true", false}, {"mpirun -np 1 -bind-to user:0 true", false},
		{"orterun -n 1 -bind-to core:2 true", false}, {"mpirun.openmpi -n 1 -map-by rr true", false}, {"mpiexec -x A -n 1 -bind-to core:2 true", false},
		{"mpiexec.hydra -n 1 -map-by ppr:1:node true", true}, {"mpirun.mpich -n 1 -bind-to package:overload-allowed true", true},
	} {
		t.Run(tt.args, func(t *testing.T) {
			t.Parallel()
			words := strings.Fields(tt.args)
			link := filepath.Join(t.TempDir(), words[0])
			if err := os.Symlink(bin, link); err != nil {
				t.Fatal(err)
			}
			c := exec.Command(link, words[1:]...)
			c.Env = []string{"PATH=/usr/bin:/bin", "HOME=" + t.TempDir()}
			e := lab.Run(t, bound, c)
			if e.Code != 240 || strings.Contains(e.Stderr, "takes the line") != tt.other {
				t.Errorf("ended with %d, and said\n%s", e.Code, e.Stderr)
			}
		})
	}
}
