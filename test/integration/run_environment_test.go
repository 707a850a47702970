package integration

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

func variables(text string) map[string]string {
	env := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "="); ok {
			env[name] = value
		}
	}
	return env
}

func TestEnvironmentOfARank(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	dir := l.folder(t)
	r := l.run(t, job{hosts: "w0:2,w1:2",
		env: []string{"EXPORTED=from the launcher", "NOT_EXPORTED=1", "PMI_RANK=9", "PMIX_RANK=9", "PMI_ANYTHING=1", "MPIUP_RANK=77",
			"KUBERNETES_SERVICE_HOST=10.0.0.1", "K_MPI_JOB_ROLE=launcher"},
		args: []string{"-n", "4", "--mpi", "pmi1", "-x", "EXPORTED", "-x", "GIVEN=a=b c", "-x", "HOME=/there", "--output-dir", dir, "env"}})
	if not := "not so on w0, w1: NOT_EXPORTED; ranks get them with -x NOT_EXPORTED\n"; r.Code != 0 || !strings.HasSuffix(r.Stderr, not) || strings.Count(r.Stderr, "\n") != 1 {
		t.Fatalf("ended with %d, and said %s", r.Code, r.Stderr)
	}
	if r.Stdout == "" {
		t.Error("--output-dir took the output away from standard output")
	}
	var jobs, hosts []string
	for rank, want := range []map[string]string{
		{"MPIUP_RANK": "0", "MPIUP_LOCAL_RANK": "0", "MPIUP_NODE_RANK": "0", "HOSTNAME": "w0"},
		{"MPIUP_RANK": "1", "MPIUP_LOCAL_RANK": "1", "MPIUP_NODE_RANK": "0", "HOSTNAME": "w0"},
		{"MPIUP_RANK": "2", "MPIUP_LOCAL_RANK": "0", "MPIUP_NODE_RANK": "1", "HOSTNAME": "w1"},
		{"MPIUP_RANK": "3", "MPIUP_LOCAL_RANK": "1", "MPIUP_NODE_RANK": "1", "HOSTNAME": "w1"},
	} {
		files, _ := filepath.Glob(filepath.Join(dir, "rank.*"+want["MPIUP_RANK"], "stdout"))
		if len(files) != 1 {
			t.Fatalf("files of rank %d: %v", rank, files)
		}
		text, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		env := variables(string(text))
		for name, value := range map[string]string{"MPIUP_SIZE": "4", "MPIUP_LOCAL_SIZE": "2", "EXPORTED": "from the launcher",
			"GIVEN": "a=b c", "HOME": "/there"} {
			want[name] = value
		}
		for name, value := range want {
			if env[name] != value {
				t.Errorf("rank %d: %s is %q, not %q", rank, name, env[name], value)
			}
		}
		for name := range env {
			foreign := strings.HasPrefix(name, "PMIX_") || strings.HasPrefix(name, "PMI_") && !slices.Contains([]string{"PMI_FD", "PMI_RANK", "PMI_SIZE"}, name)
			if foreign || slices.Contains([]string{"NOT_EXPORTED", "KUBERNETES_SERVICE_HOST", "K_MPI_JOB_ROLE"}, name) {
				t.Errorf("rank %d has the launcher's %s", rank, name)
			}
		}
		jobs, hosts = append(jobs, env["MPIUP_JOB_ID"]), append(hosts, env["MPIUP_SESSION"])
	}
	if jobs[0] == "" || len(slices.Compact(jobs)) != 1 {
		t.Errorf("MPIUP_JOB_ID of the ranks: %q", jobs)
	}
	if slices.Contains(hosts, "") {
		t.Errorf("MPIUP_SESSION of the ranks: %q", hosts)
	}
}

func TestNoPMI(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	r := l.run(t, job{hosts: "w0:1", env: []string{"PMI_FD=3"}, args: []string{"--mpi", "none", "env"}}).OK(t)
	if strings.Contains(r.Stdout, "PMI_") || !strings.Contains(r.Stdout, "MPIUP_RANK=0\n") {
		t.Errorf("environment:\n%s", r.Stdout)
	}
}

func TestWorkingDirectory(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	dir := l.folder(t)
	where := []string{"sh", "-c", `echo "$MPIUP_RANK $(pwd) $PWD"`}
	// Every host has a /run of its own, so this one is the launcher's alone.
	lone := "/run/lone"
	l.command(t, job{}, "mkdir", "-p", lone).Wait(t).OK(t)
	for _, c := range []struct {
		name, dir, flag, want string
	}{
		{"ours", dir, "", "0 " + dir + " " + dir},
		{"given", "/", dir, "0 " + dir + " " + dir},
		{"given, relative", filepath.Dir(dir), filepath.Base(dir), "0 " + dir + " " + dir},
	} {
		t.Run(c.name, func(t *testing.T) {
			var flags []string
			if c.flag != "" {
				flags = []string{"--wdir", c.flag}
			}
			r := l.run(t, job{hosts: "w0:1", dir: c.dir, args: append(flags, where...)}).OK(t)
			if r.Stdout != c.want+"\n" {
				t.Errorf("printed %q, not %q", r.Stdout, c.want)
			}
		})
	}
	t.Run("ours is missing there", func(t *testing.T) {
		r := l.run(t, job{hosts: three, dir: lone, args: append([]string{"-n", "6"}, where...)})
		if r.Code != 0 || strings.Count(r.Stdout, " / /\n") != 6 {
			t.Errorf("ended with %d\n%s%s", r.Code, r.Stdout, r.Stderr)
		}
		if strings.Count(r.Stderr, lone) != 1 {
			t.Errorf("the other directory is to be told once:\n%s", r.Stderr)
		}
	})
	t.Run("given one is missing there", func(t *testing.T) {
		l.run(t, job{hosts: "w0:1,w1:1", args: append([]string{"--wdir", lone}, where...)}).Fails(t, 247, lone, " on w")
	})
}

// The environment of a rank is shown with its reasons, and nothing of the job is started.
func TestEnvExplains(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	show := func(args ...string) result {
		return l.mpiup(t, append([]string{"env", "--key", l.key, "--host", "w0:1,w1:1"}, args...)...)
	}
	r := show("--explain", "1", "-n", "2", "-x", "MINE=a  b", "--fabric", "tcp", "--", "sh", "-c", "echo started").OK(t)
	for _, row := range []string{
		`MPIUP_RANK=1 +mpiup +which rank`, `MINE=a  b +user `, `PATH=\S+ +container`, `UCX_TLS=\^ib +mpiup +--fabric tcp`,
		`HWLOC_XMLFILE=/proc/\d+/fd/\d+ +mpiup +the host's topology`,
	} {
		if !regexp.MustCompile(`(?m)^` + row).MatchString(r.Stdout) {
			t.Errorf("no line %s in\n%s", row, r.Stdout)
		}
	}
	if regexp.MustCompile(`(?m)^started|MPIUP_RANK=0|MPIUP_EXPLAIN`).MatchString(r.Stdout) || r.Stderr != "" {
		t.Errorf("too much:\n%s%s", r.Stdout, r.Stderr)
	}
	show("--explain", "2", "-n", "2", "true").Fails(t, 240, "--explain 2: the job has ranks 0 to 1")
	show("-n", "2").Fails(t, 240)
}

// Variables that were set for the command: settings of communication libraries reach ranks on other hosts, of others one line says that
// they do not. Where nobody can tell when they were set, hosts are asked what they have.
func TestVariablesBeforeTheCommand(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	const (
		show  = `sh -c 'echo "$NCCL_DEBUG,$MODE,$FI_AUTH_KEY"'`
		not   = "set in this session, not so on w0: "
		older = "set here, not so on w0: NCCL_DEBUG; ranks keep theirs without -x NCCL_DEBUG\n"
	)
	run := l.bin + " run --key " + l.key + " --host w0:1 "
	for _, c := range []struct {
		name, script string
		env          []string
		out          string
		says         string // all of standard error
	}{
		{"typed", "NCCL_DEBUG=INFO MODE=x FI_AUTH_KEY=hush " + run + show, nil, "INFO,,", not + "FI_AUTH_KEY, MODE; ranks get them with -x FI_AUTH_KEY -x MODE\n"},
		{"for a command between", "NCCL_DEBUG=INFO timeout 60 " + run + show, nil, "INFO,,", ""},
		{"exported, and asked for", "export NCCL_DEBUG=INFO MODE=x; " + run + "-x NCCL_DEBUG=WARN -x 'MOD*' " + show, nil, "WARN,x,", ""},
		{"of two programs one is given it", "MODE=x " + run + "--oversubscribe -n 1 -x MODE true : -n 1 " + show, nil, ",,", not + "MODE; ranks get them with -x MODE\n"},
		{"another value", "NCCL_DEBUG=WARN " + run + show, []string{"NCCL_DEBUG=INFO"}, "WARN,,", ""},
		{"the launcher's container has it", run + show, []string{"NCCL_DEBUG=INFO", "MODE=x"}, ",,", older},
		{"another user's parent", "NCCL_DEBUG=INFO exec setpriv --reuid 1000 --clear-groups " + run + show, []string{"TMPDIR=/dev/shm"}, ",,", older},
		{"shell's own", "export PATH=$PATH:/x SHLVL=7 MPIUP_POD_GRACE=30; " + run + show, nil, ",,", ""},
		{"on this machine alone", "NCCL_DEBUG=INFO MODE=x " + l.bin + " run -n 1 " + show, nil, "INFO,x,", ""},
		{"exec", "NCCL_DEBUG=INFO MODE=x " + l.bin + " exec --key " + l.key + " w0 -- " + show, nil, "INFO,,", not + "MODE; commands get them with -x MODE\n"},
		{"env", "NCCL_DEBUG=INFO MODE=x " + l.bin + " env --key " + l.key + " --host w0 -n 1 true | grep -c NCCL_DEBUG=INFO", nil, "1", not + "MODE; ranks get them with -x MODE\n"},
		{"mpirun has a rule of its own", "NCCL_DEBUG=INFO MODE=x MPIUP_KEY=" + l.key + " " + l.bin + " mpirun --allow-run-as-root --host w0:1 -n 1 " + show, nil, ",,", older},
		{"torchrun hands all over", "NCCL_DEBUG=INFO MODE=x MPIUP_KEY=" + l.key + " OMPI_MCA_orte_default_hostfile=" + l.file(t, "w0 slots=1\n") + " " +
			l.bin + " torchrun --nnodes 1:1 --nproc-per-node 1 --no-python " + show, nil, "INFO,x,", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := l.command(t, job{env: append([]string{"A=1"}, c.env...)}, "sh", "-c", c.script+"; exit $?").Wait(t)
			says := strings.ReplaceAll(r.Stderr, "mpiup: ", "")
			if r.Code != 0 || strings.TrimSuffix(r.Stdout, "\n") != c.out || says != c.says {
				t.Errorf("ended with %d, printed %q, said %q and not %q", r.Code, r.Stdout, says, c.says)
			}
		})
	}
}
