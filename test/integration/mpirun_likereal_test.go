package integration

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// likeReal runs one line with a real launcher and with mpiup under a name of that, on one machine.
// Standard output, line by line, and success are to be the same. There is no secret: with one this would be a pod of a
// job, in which nothing runs without hosts.
func (l *lab) likeReal(t *testing.T, real []string, name string, env, args []string) {
	t.Helper()
	l.likeRealOf(t, map[string]string{"mpirun": "openmpi", "mpiexec": "hydra"}[name], real, name, env, args)
}

// likeRealOf is likeReal for a family.
func (l *lab) likeRealOf(t *testing.T, family string, real []string, name string, env, args []string) {
	t.Helper()
	env = append(env, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1", "MPIUP_FAMILY="+family)
	dir := l.folder(t)
	want := l.command(t, job{env: env, dir: dir}, append(real, args...)...).Wait(t)
	if want.Code == 128+int(syscall.SIGPIPE) { // Hydra 5.0.2 writes to a proxy of its own that has gone, once in some hundred runs
		want = l.command(t, job{env: env, dir: dir}, append(real, args...)...).Wait(t)
	}
	got := l.command(t, job{env: env, dir: dir}, append([]string{l.link(t, name)}, args...)...).Wait(t)
	if inOrder(got.Stdout) != inOrder(want.Stdout) || (got.Code == 0) != (want.Code == 0) {
		t.Errorf("%q ended with %d:\n%s%s\nwith mpiup %d:\n%s%s", args, want.Code, inOrder(want.Stdout), want.Stderr, got.Code, inOrder(got.Stdout), got.Stderr)
	}
}

// show prints words and a variable so that nothing of them is lost.
const show = `for a in "$@"; do printf '<%s>' "$a"; done; printf ' %s\n' "$V"`

// metacharacters mean something to a shell, and nothing to a launcher.
var metacharacters = []string{"a b", `"q"`, `'s'`, `$HOME`, "`x`", `\`, "*", "?", "[a]", "~", "{x,y}", "!", ";", "&", "|", "<", ">", "(", ")", "#", "%", "=", "", "\t", "\n", "ü", "-np", ",",
	latin1, "\xff", "\u00a0", "\u0085"} // no UTF-8, and blanks of people's alone

// programs is a directory with programs: bare, which PATH does not have, sh, which it does, and text, which has no #! line.
func (l *lab) programs(t *testing.T) string {
	t.Helper()
	dir := l.folder(t)
	for _, name := range []string{"bare", "sh"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\necho "+name+" $*\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "text"), []byte("printf '<%s>' \"$0\" \"$@\"; echo\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestLikeOpenMPI(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	need.Program(t, "mpirun.openmpi", "openmpi-bin")
	apps, more := l.file(t, "-np 1 echo \"a b\" 'c' # rest\n\n  -np 1 echo $HOME http://x\n-np 1 echo a\u00a0b "+latin1+" d\n"), l.file(t, "-np 1 echo one : -np 1 echo two\n")
	tune := l.file(t, "# tuned\n-x V=1 --mca btl self\n-x W=\u00a0"+latin1+"\n")
	bin := l.programs(t)
	one := l.file(t, "localhost\n")
	two, bare, again := l.file(t, "localhost slots=2\n"), l.file(t, "localhost\nlocalhost\nlocalhost\n"), l.file(t, "localhost slots=1\nlocalhost slots=1\n")
	for _, c := range []struct {
		name string
		env  []string
		args []string
	}{
		{"one", nil, []string{"-np", "1", "echo", "a"}},
		{"words", nil, append([]string{"-np", "1", "sh", "-c", show, "sh"}, metacharacters...)},
		{"a variable", nil, []string{"-np", "1", "-x", `V=a "b" $HOME \ ;'`, "sh", "-c", show}},
		{"a variable of two lines", nil, []string{"-np", "1", "-x", "V=a\nb", "sh", "-c", show}},
		{"a variable of here", []string{"V=x=\"y\""}, []string{"-np", "1", "-x", "V", "sh", "-c", show}},
		{"a variable of any bytes", []string{"V=" + latin1 + "\xff"}, []string{"-np", "1", "-x", "V", "sh", "-c", show}},
		{"a variable of here of two lines", []string{"V=a\n\"b\"\n"}, []string{"-np", "1", "-x", "V", "sh", "-c", show}},
		{"an empty variable", []string{"V=x"}, []string{"-np", "1", "-x", "V=", "sh", "-c", show}},
		{"a variable twice", nil, []string{"-np", "1", "-x", "V=1", "-x", "V=2", "sh", "-c", show}},
		{"a variable of one program", nil, []string{"-np", "1", "-x", "V=1", "sh", "-c", show, ":", "-np", "1", "-x", "V=", "sh", "-c", show}},
		{"no such variable", nil, []string{"-np", "1", "-x", "NOPE", "sh", "-c", show}},
		{"a parameter", nil, []string{"-np", "1", "--mca", "btl", `"self,tcp"`, "printenv", "OMPI_MCA_btl"}},
		{"a parameter of all", nil, []string{"--mca", "btl", "self", "-np", "1", "printenv", "OMPI_MCA_btl", ":", "-np", "1", "printenv", "OMPI_MCA_btl"}},
		{"a parameter twice", nil, []string{"--mca", "btl", "self", "--mca", "btl", "tcp", "-np", "1", "true"}},
		{"parameters of variables", []string{"W=2"}, []string{"-np", "1", "--mca", "mca_base_env_list", "V=1;W", "sh", "-c", `echo $V $W`}},
		{"-np twice", nil, []string{"-H", "localhost:4", "-np", "1", "-np", "2", "echo", "a"}},
		{"a colon at the end", nil, []string{"-np", "1", "echo", "a", ":"}},
		{"directory", nil, []string{"-np", "1", "-wdir", "/", "pwd", ":", "-np", "1", "pwd"}},
		{"no directory", nil, []string{"-np", "1", "-wdir", "/no/such", "pwd"}},
		{"no program", nil, []string{"-np", "1", "/no/such"}},
		{"an empty program", nil, []string{"-np", "1", ""}},
		{"no words", nil, nil},
		{"code", nil, []string{"-np", "1", "sh", "-c", "exit 3"}},
		{"codes that pass", nil, []string{"-np", "1", "--mca", "orte_abort_on_non_zero_status", "0", "sh", "-c", "exit 3"}},
		{"a rank that fails ends nothing", nil, []string{"-H", "localhost:2", "--enable-recovery", "sh", "-c", "[ $OMPI_COMM_WORLD_RANK = 0 ] || kill -9 $$; sleep 1; echo on"}},
		{"a place to look", nil, []string{"-np", "1", "--path", "/usr/sbin:/bin", "sh", "-c", "echo a"}},
		{"a name of the working directory", nil, []string{"-np", "1", "-wdir", bin, "bare", "a"}},
		{"a name of PATH and the working directory", nil, []string{"-np", "1", "-wdir", bin, "sh", "-c", "echo a"}},
		{"no place to look", nil, []string{"-np", "1", "--path", "/proc", "sh", "-c", "echo a"}},
		{"its rank in the name", nil, []string{"-H", "localhost:2", "--index-argv-by-rank", "sh", "-c", `tr '\0' ' ' </proc/$$/cmdline | cut -c1-5`}},
		{"a parameter file", nil, []string{"-np", "1", "--tune", tune, "sh", "-c", "echo $V,$W"}},
		{"no parameter file", nil, []string{"-np", "1", "--tune", "/no/such", "true"}},
		{"tags", nil, []string{"-np", "1", "--tag-output", "printf", `a\rb\nc\n`}},
		{"hosts", nil, []string{"-H", "localhost,localhost:2", "echo", "a"}},
		{"too few slots", nil, []string{"-H", "localhost:2", "-np", "3", "echo", "a"}},
		{"too few CPUs", nil, []string{"-np", "999", "echo", "a"}},
		{"too few CPUs, said so", nil, []string{"--nooversubscribe", "-np", "999", "echo", "a"}},
		{"too few CPUs of a host", nil, []string{"--hostfile", one, "-np", "999", "echo", "a"}},
		{"too few CPUs of a host's own number", nil, []string{"-H", "localhost:*", "-np", "999", "echo", "a"}},
		{"too few CPUs for -N", nil, []string{"-N", "999", "echo", "a"}},
		{"too few CPUs to map by", nil, []string{"--map-by", "core", "-np", "999", "echo", "a"}},
		{"too few CPUs for two programs", nil, []string{"-np", "998", "echo", "a", ":", "-np", "1", "echo", "b"}},
		{"too few CPUs, which may be", nil, []string{"--oversubscribe", "-np", "9", "echo", "a"}},
		{"too few slots for -N", nil, []string{"-H", "localhost:1", "-N", "2", "echo", "a"}},
		{"oversubscribed", nil, []string{"-H", "localhost:2", "--oversubscribe", "-np", "3", "echo", "a"}},
		{"oversubscribed by mapping", nil, []string{"-H", "localhost:2", "--map-by", "slot:OVERSUBSCRIBE", "-np", "3", "echo", "a"}},
		{"hostfile", nil, []string{"--hostfile", two, "echo", "a"}},
		{"hostfile, a mention each", nil, []string{"--hostfile", bare, "echo", "a"}},
		{"hostfile, slots twice", nil, []string{"--hostfile", again, "echo", "a"}},
		{"hostfile and list", nil, []string{"--hostfile", two, "-H", "localhost", "echo", "a"}},
		{"hostfile and list of more", nil, []string{"--hostfile", two, "-H", "localhost:3", "echo", "a"}},
		{"no hostfile", nil, []string{"--hostfile", "/no/such", "echo", "a"}},
		{"default hostfile", []string{"OMPI_MCA_orte_default_hostfile=" + bare}, []string{"echo", "a"}},
		{"no rank here", nil, []string{"-H", "localhost:2", "--nolocal", "-np", "1", "echo", "a"}},
		{"programs of a file", nil, []string{"-H", "localhost:2", "--app", apps}},
		{"programs of a file with a colon", nil, []string{"--app", more}},
		{"no file of programs", nil, []string{"--app", "/no/such"}},
		{"unknown option", nil, []string{"-np", "1", "--bogus", "echo", "a"}},
		{"unknown mapping", nil, []string{"-np", "1", "--map-by", "bogus", "echo", "a"}},
		{"unknown ranking", nil, []string{"-np", "1", "--rank-by", "bogus", "echo", "a"}},
		{"unknown binding", nil, []string{"-np", "1", "--bind-to", "bogus", "echo", "a"}},
		{"too few values", nil, []string{"-np"}},
		{"no number", nil, []string{"-np", "x", "echo", "a"}},
		{"no ranks", nil, []string{"-H", "localhost:2", "-np", "0", "echo", "a"}},
		{"no ranks of a program", nil, []string{"-H", "localhost:2", "-np", "0", "echo", "a", ":", "-np", "1", "echo", "b"}},
		{"ranks of each program on each host", nil, []string{"-H", "localhost:2", "-npernode", "1", "echo", "a", ":", "echo", "b"}},
		{"tags in files", nil, []string{"-np", "1", "--tag-output", "--output-filename", "o", "sh", "-c", "echo a; sleep 1; b=$(cat o/1/rank.0/stdout); echo \"$b\""}},
		{"a parameter twice", nil, []string{"-np", "1", "--mca", "a_b", "1", "--mca", "a_b", "2", "printenv", "OMPI_MCA_a_b"}},
		{"a parameter for all behind a colon", nil, []string{"-np", "1", "echo", "a", ":", "--gmca", "a_b", "2", "-np", "1", "echo", "b"}},
		{"CPUs for one rank", nil, []string{"-H", "localhost:2", "-np", "1", "--map-by", ":PE=2", "echo", "a"}},
		{"no time", nil, []string{"-np", "1", "--timeout", "x", "echo", "a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l.likeReal(t, []string{"mpirun.openmpi"}, "mpirun", c.env, c.args)
		})
	}
}

func TestLikeHydra(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	need.MPICH(t)
	config := l.file(t, "-n 1 -env V 1 printenv V # rest\n\n-n 1 echo \"a b\" : -n 1 echo c\n-n 1 echo a\u00a0b "+latin1+" d\n")
	bin, universe := l.programs(t), l.program(t, "universe")
	slots := l.file(t, "localhost:3\n")
	for _, c := range []struct {
		name string
		env  []string
		args []string
	}{
		{"one", nil, []string{"echo", "a"}},
		{"words", nil, append([]string{"-n", "1", "sh", "-c", show, "sh"}, metacharacters...)},
		{"a variable", nil, []string{"-n", "1", "-genv", "V", `a "b" $HOME \ ;'`, "sh", "-c", show}},
		{"a variable with =", nil, []string{"-n", "1", "-genv", "V=x=y", "sh", "-c", show}},
		{"a value with =", nil, []string{"-n", "1", "-genv", "V", "x=y", "sh", "-c", show}},
		{"a variable of here", []string{"V=x=\"y\""}, []string{"-n", "1", "sh", "-c", show}},
		{"a variable of any bytes", []string{"V=" + latin1 + "\xff"}, []string{"-n", "1", "sh", "-c", show}},
		{"a variable of two lines", nil, []string{"-n", "1", "-genv", "V", "a\nb", "sh", "-c", show}},
		{"a variable of here of two lines", []string{"V=a\n\"b\"\n"}, []string{"-n", "1", "sh", "-c", show}},
		{"an empty variable", []string{"V=x"}, []string{"-n", "1", "-env", "V", "", "sh", "-c", show}},
		{"of one program", []string{"V=0"}, []string{"-n", "1", "-env", "V", "1", "sh", "-c", show, ":", "-n", "1", "sh", "-c", show}},
		{"of all, said late", nil, []string{"-n", "1", "sh", "-c", show, ":", "-genv", "V", "2", "-n", "1", "sh", "-c", show}},
		{"one before all", nil, []string{"-genv", "V", "1", "-n", "1", "-env", "V", "2", "sh", "-c", show}},
		{"= after the option", nil, []string{"-n=2", "echo", "a"}},
		{"capitals", nil, []string{"-NP", "2", "echo", "a"}},
		{"ranks before lines", nil, []string{"-l", "-n", "3", "echo", "a"}},
		{"a pattern before lines", nil, []string{"-prepend-pattern", "<%r,%g,%p,%%> ", "-n", "3", "printf", `a\nb\n`}},
		{"seconds before lines", nil, []string{"-prepend-pattern", "<%t> ", "-n", "2", "echo", "a"}},
		{"one rank's output", nil, []string{"-output-from", "1", "-n", "3", "sh", "-c", "echo ${PMI_RANK-$MPIUP_RANK}"}},
		{"a rank that fails ends nothing", nil, []string{"-disable-auto-cleanup", "-n", "2", "sh", "-c", "[ ${PMI_RANK-$MPIUP_RANK} = 0 ] || exit 3; sleep 1; echo on"}},
		{"files by a pattern", nil, []string{"-outfile-pattern", "o.%r", "-errfile-pattern", "e", "-n", "2", "sh", "-c", "echo $PMI_RANK; echo e >&2"}},
		{"a text before lines in files", nil, []string{"-prepend-pattern", "x%r:", "-outfile-pattern", "o.%r", "-n", "1", "sh", "-c", "echo a; sleep 1; cat o.0 >&2"}},
		{"as many ranks as the host has slots", nil, []string{"-hosts", "localhost:3", "echo", "a"}},
		{"as many ranks as are asked for each host", nil, []string{"-ppn", "3", "echo", "a"}},
		{"programs without numbers", nil, []string{"-hosts", "localhost:2", "echo", "a", ":", "-n", "1", "echo", "b", ":", "echo", "c"}},
		{"no ranks", nil, []string{"-hosts", "localhost:2", "-n", "0", "echo", "a"}},
		{"as many ranks as a file says", []string{"HYDRA_HOST_FILE=" + slots}, []string{"echo", "a"}},
		{"an unknown pattern", nil, []string{"-prepend-pattern", "%x", "echo", "a"}},
		{"directory", nil, []string{"-n", "1", "-wdir", "/", "pwd", ":", "-n", "1", "pwd"}},
		{"no directory", nil, []string{"-n", "1", "-wdir", "/no/such", "pwd"}},
		{"no program", nil, []string{"-n", "1", "/no/such"}},
		{"a text without #!", nil, []string{"-n", "2", filepath.Join(bin, "text"), "a b", "c"}},
		{"a text without #! by another name", nil, []string{"-n", "1", "-wdir", bin, "./text", "a b"}},
		{"a text without #! on PATH", []string{"PATH=" + bin + ":/usr/bin:/bin"}, []string{"-n", "1", "text"}},
		{"a name of the working directory", nil, []string{"-n", "1", "-wdir", bin, "bare", "a"}},
		{"a universe nobody gave", nil, []string{"-n", "2", universe}},
		{"a universe of hosts with numbers", nil, []string{"-hosts", "localhost:4", "-n", "2", universe}},
		{"a universe of a number", nil, []string{"-usize", "7", "-n", "2", universe}},
		{"a universe of the system", nil, []string{"-hosts", "localhost:4", "-usize", "SYSTEM", "-n", "2", universe}},
		{"a universe of no numbers", nil, []string{"-usize", "SYSTEM", "-n", "2", universe}},
		{"an infinite universe", nil, []string{"-usize", "INFINITE", "-n", "2", universe}},
		{"no universe", nil, []string{"-usize", "system", "-n", "2", "echo", "a"}},
		{"an empty universe", nil, []string{"-usize", "0", "-n", "2", "echo", "a"}},
		{"code", nil, []string{"-n", "1", "sh", "-c", "exit 3"}},
		{"interface", nil, []string{"-n", "1", "-iface", "lo", "printenv", "MPIR_CVAR_NEMESIS_TCP_NETWORK_IFACE"}},
		{"programs of a file", nil, []string{"-configfile", config}},
		{"hosts twice", nil, []string{"-hosts", "localhost", "-hosts", "localhost", "echo", "a"}},
		{"environment twice", nil, []string{"-genvnone", "-genvall", "echo", "a"}},
		{"no value", nil, []string{"-genv", "V"}},
		{"too few values", nil, []string{"-n"}},
		{"unknown option", nil, []string{"-bogus", "echo", "a"}},
		{"no hostfile", nil, []string{"-f", "/no/such", "echo", "a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			l.likeReal(t, []string{"mpirun.mpich"}, "mpiexec", c.env, c.args)
		})
	}
}

// What versions 5 do otherwise than those above, and what they were found to do alike.
func TestLikeTheNewest(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	mpich, ompi := filepath.Join(l.wheels(t), "mpirun"), filepath.Join(l.openMPI5(), "bin/mpirun")
	need.File(t, "wheels", ompi, "run test/wheels.sh")
	universe, err := l.compiled(filepath.Join(l.wheels(t), "mpicc"), "universe")
	if err != nil {
		t.Fatal(err)
	}
	one, two, bin := l.file(t, "localhost\n"), l.file(t, "localhost slots=2\n"), l.programs(t)
	for _, c := range []struct {
		name string
		args []string
		mpi  string
	}{
		{"one", []string{"-np", "1", "echo", "a"}, ompi},
		{"a name of the working directory", []string{"-np", "1", "-wdir", bin, "bare", "a"}, ompi},
		{"a name of PATH and the working directory", []string{"-np", "1", "-wdir", bin, "sh", "-c", "echo a"}, ompi},
		{"a name of nowhere", []string{"-np", "1", "-wdir", "/", "bare", "a"}, ompi},
		{"slots", []string{"--hostfile", two, "echo", "a"}, ompi},
		{"too few slots", []string{"--hostfile", two, "-np", "3", "echo", "a"}, ompi},
		{"too few slots, which may be", []string{"--hostfile", two, "--oversubscribe", "-np", "3", "echo", "a"}, ompi},
		{"too few CPUs", []string{"-np", "999", "echo", "a"}, ompi},
		{"too few CPUs, said so", []string{"--nooversubscribe", "-np", "999", "echo", "a"}, ompi},
		{"too few CPUs of a host", []string{"--hostfile", one, "-np", "999", "echo", "a"}, ompi},
		{"too few CPUs for -N", []string{"-N", "999", "echo", "a"}, ompi},
		{"too few CPUs for two programs", []string{"-np", "998", "echo", "a", ":", "-np", "1", "echo", "b"}, ompi},
		{"files of a name", []string{"-np", "1", "--output", "file=o:nocopy", "echo", "a"}, ompi}, // 5.0.8 and 5.0.10 show a copy without, 5.0.11 does not
		{"files of a directory", []string{"-np", "1", "--output", "dir=o:nocopy", "echo", "a"}, ompi},
		{"tags of ranks", []string{"-np", "1", "--output", "rank", "echo", "a"}, ompi},
		{"tags of two kinds", []string{"-np", "1", "--output", "tag,rank", "echo", "a"}, ompi},
		{"a parameter twice", []string{"-np", "1", "--mca", "a_b", "1", "--mca", "a_b", "2", "printenv", "OMPI_MCA_a_b"}, ompi},
		{"a parameter for all behind a colon", []string{"-np", "1", "echo", "a", ":", "--gmca", "a_b", "2", "-np", "1", "echo", "b"}, ompi},
		{"no ranks", []string{"--hostfile", two, "-np", "0", "echo", "a"}, ompi},
		{"files of both", []string{"-np", "1", "--output", "dir=o,file=p", "echo", "a"}, ompi},

		{"one", []string{"-n", "1", "echo", "a"}, mpich},
		{"a name of the working directory", []string{"-n", "1", "-wdir", bin, "bare", "a"}, mpich},
		{"a universe nobody gave", []string{"-n", "2", universe}, mpich},
		{"a universe of hosts with numbers", []string{"-hosts", "localhost:4", "-n", "2", universe}, mpich},
		{"a universe of a number", []string{"-usize", "7", "-n", "2", universe}, mpich},
		{"a universe of the system", []string{"-hosts", "localhost:4", "-usize", "SYSTEM", "-n", "2", universe}, mpich},
		{"no universe", []string{"-usize", "0", "-n", "2", "echo", "a"}, mpich},
	} {
		family, name := "openmpi5", "mpirun"
		if c.mpi == mpich {
			family, name = "hydra", "mpiexec"
		}
		t.Run(family+" "+c.name, func(t *testing.T) {
			t.Parallel()
			l.likeRealOf(t, family, []string{c.mpi}, name, nil, c.args)
		})
	}
}

// Lines of hostfiles of every kind: what the real launcher takes is taken with the same ranks, and what
// it does not take is an error. What is taken beyond that, and why, stands at the line.
func TestHostfilesLikeTheReal(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	need.Program(t, "mpirun.openmpi", "openmpi-bin")
	need.MPICH(t)
	for _, c := range []struct {
		family string
		lines  []string
	}{
		{"mpirun", []string{
			"localhost slots=2", " localhost slots=2", "\tlocalhost slots = 2 # c", "// c\nlocalhost slots =2", "LOCALHOST slots=1", "user@localhost slots=3",
			"localhost cpu=3", "localhost count=3", "localhost max_slots=3", "localhost max-slots=3", "localhost slots=1 max_slots=2", "localhost slots=2 max_slots=1",
			"localhost slots=", "localhost slots=x", "localhost slots=-1", "localhost slots=0", "localhost slots=2.5", "localhost slots=0x2", "localhost slots=999999999999",
			"localhost slots=2 slots=3", "localhost foo=1", "localhost,localhost", "localhost=2", "slots=2", `localhost slots="2"`, `"localhost" slots=2`, "localhost ; localhost",
			"localhost\nlocalhost", "localhost\nlocalhost slots=2", "localhost slots=2\nlocalhost", "localhost username=x slots=2", "^localhost\nlocalhost slots=2", "", "# c",
		}},
		{"mpiexec", []string{
			"localhost:2", " localhost:2 # c", "# c\nlocalhost", "localhost:2\r", "localhost\nlocalhost", "localhost:2 user=x",
			"localhost:x", "localhost:-1", "localhost:0", "localhost 2", "localhost : 2", "localhost:2 foo", "localhost:2 ib=x",
		}},
	} {
		for _, line := range c.lines {
			t.Run(c.family+" "+line, func(t *testing.T) {
				t.Parallel()
				file := l.file(t, line+"\n")
				if c.family == "mpirun" {
					l.likeReal(t, []string{"mpirun.openmpi"}, c.family, nil, []string{"--hostfile", file, "echo", "a"})
				} else {
					l.likeReal(t, []string{"mpirun.mpich"}, c.family, nil, []string{"-f", file, "-n", "3", "echo", "a"})
				}
			})
		}
	}
}

// Lines of rankfiles. Beyond what Open MPI 4.1.4 takes, words may be in capitals and lists in quotes; what it
// takes and starts somewhere (slot=x, slot=-1, slot=1-0, words after the list) is an error.
func TestRankfilesLikeOpenMPI(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	need.Program(t, "mpirun.openmpi", "openmpi-bin")
	for _, line := range []string{
		"rank 0=localhost slot=0", "rank 0 = localhost slot = 0", "rank 0=localhost slots=0", "rank 0=user@localhost slot=0", "rank 0=localhost slot=0:0",
		"rank 0=localhost slot=0-0", "rank 0=localhost slot=0,0", "rank 0=localhost slot=p0", "rank 0=localhost slot=0 # c", "// c\nrank 0=localhost slot=0",
		"rank 0=localhost slot=0:*", "rank 0=localhost slot=*", "rank 0=LOCALHOST slot=0", "rank 00=localhost slot=00", "rank 0=127.0.0.1 slot=0", "\trank\t0=localhost\tslot=0",
		"rank 0=localhost", "rank 0 slot=0", "rank x=localhost slot=0", "rank 0=localhost slot=9999", "", "# c", "rank 0=localhost slot=0\nrank 0=localhost slot=0",
		"rank 1=localhost slot=0", "rank=localhost slot=0", "rank -1=localhost slot=0", "rank 0=localhost slot=", "rank 0=localhost slot=0 slot=0",
		"rank 0=localhost slot=999:0", "localhost slot=0", "rank 0=localhost;slot=0",
	} {
		t.Run(line, func(t *testing.T) {
			t.Parallel()
			l.likeReal(t, []string{"mpirun.openmpi"}, "mpirun", nil, []string{"--rankfile", l.file(t, line+"\n"), "echo", "a"})
		})
	}
}

// What no kernel starts is an error that names it.
func TestTooLongForAnyProgram(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	long := strings.Repeat("x", 200_000)
	word, variable := l.file(t, "-np 1 echo "+long+"\n"), l.file(t, "-np 1 -x A="+long+" true\n")
	l.called(t, "mpirun", job{}, "-H", "w1", "--app", word).Fails(t, 246, "w1", "an argument of 200000 bytes is longer than the 131071 that the kernel takes")
	l.called(t, "mpirun", job{}, "-H", "w1", "--app", variable).Fails(t, 240, variable+" line 1", "variable A has 200002 bytes, more than the 131071")
	words := strings.Fields(strings.Repeat(strings.Repeat("y", 100)+" ", 3000))
	l.ssh(t, job{}, append([]string{"w1", "echo"}, words...)...).Wait(t).Fails(t, 255, "the command on w1", "an argument of 303004 bytes")
}

// A megabyte of arguments arrives.
func TestLongCommandLines(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	var args []string
	for range 8 {
		args = append(args, strings.Repeat("x", 120_000))
	}
	for name, flags := range map[string][]string{"mpirun": {"-H", "w1", "-x", "V=" + strings.Repeat("v", 100_000)}, "mpiexec": {"-hosts", "w1", "-genv", "V", strings.Repeat("v", 100_000)}} {
		line := append(append(flags, "sh", "-c", `echo $* $V | wc -c`, "sh"), args...)
		if r := l.called(t, name, job{}, line...); r.Stdout != "1060009\n" {
			t.Errorf("%s: %q, ended with %d: %.500s", name, r.Stdout, r.Code, r.Stderr)
		}
	}
	line := append([]string{"sh", "-c", `echo $* | wc -c`, "sh"}, args...)
	for name, r := range map[string]result{
		"run":  l.run(t, job{hosts: "w1", args: append([]string{"-n", "1", "--"}, line...)}),
		"exec": l.exec(t, job{}, append([]string{"w1", "--"}, line...)...).Wait(t),
	} {
		if r.Stdout != "960008\n" {
			t.Errorf("%s: %q, ended with %d: %.500s", name, r.Stdout, r.Code, r.Stderr)
		}
	}
}

// Words with every shell metacharacter, and values with quotes and line ends, arrive as they are in
// mpiup's own commands too.
func TestWordsAreNobodysShells(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	value := "a\n\"b\" 'c' $HOME `x` \\ ;"
	want := "<" + strings.Join(metacharacters, "><") + "> " + value + "\n"
	line := append([]string{"sh", "-c", show, "sh"}, metacharacters...)
	for name, r := range map[string]result{
		"run":  l.run(t, job{hosts: "w1", args: append([]string{"-n", "1", "-x", "V=" + value}, line...)}),
		"exec": l.exec(t, job{}, append([]string{"-x", "V=" + value, "w1", "--"}, line...)...).Wait(t),
	} {
		if r.Code != 0 || r.Stdout != want {
			t.Errorf("%s: %q, ended with %d: %s", name, r.Stdout, r.Code, r.Stderr)
		}
	}
	// Of the text for a shell, as ssh has it, each word is quoted by who writes it.
	quoted := make([]string, len(line))
	for i, w := range line {
		quoted[i] = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
	}
	text := "V='" + strings.ReplaceAll(value, "'", `'\''`) + "' " + strings.Join(quoted, " ")
	if r := l.called(t, "ssh", job{}, "w1", text); r.Code != 0 || r.Stdout != want {
		t.Errorf("ssh: %q, ended with %d: %s", r.Stdout, r.Code, r.Stderr)
	}
}
