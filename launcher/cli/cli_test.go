package cli

import (
	"io/fs"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/layout"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
	"github.com/mpiup/mpiup/launcher/hang"
	"github.com/mpiup/mpiup/launcher/iof"
	"github.com/mpiup/mpiup/launcher/progress"
	"github.com/mpiup/mpiup/launcher/run"
	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/golden"
)

var here = line.Outside{
	Lookup: func(name string) (string, bool) {
		v, ok := map[string]string{"HOME": "/root", "EMPTY": "", "LONG": strings.Repeat("x", line.MaxVar)}[name]
		return v, ok
	},
	Dir: "/work",
	LookPath: func(name string) (string, error) {
		if name == "w9" {
			return "/bin/w9", nil
		}
		return "", fs.ErrNotExist
	},
}

// A word that is no host is the program, whatever it is called like.
func TestProgramsLikeHosts(t *testing.T) {
	for _, line := range []string{"--host w0 w9", "--host w0 ./w1", "--host w0 x1", "--host w a", "w1:2"} {
		if _, _, _, err := parse(line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// parse is what cmd/mpiup does with a command line.
func parse(line string) (RunFlags, []job.App, []string, error) {
	return parseWords(strings.Fields(line))
}

func parseWords(words []string) (f RunFlags, apps []job.App, warnings []string, err error) {
	fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
	f.Register(fs)
	if err = fs.Parse(Dashes(fs, words)); err != nil {
		return f, nil, nil, FlagError(fs, err)
	}
	if err = f.Check(); err == nil {
		_, err = f.Entries()
	}
	if err == nil {
		apps, warnings, err = f.ParseApps(fs.Args(), here)
	}
	return f, apps, warnings, err
}

// values are compared as Go does it.
var values = cmp.Options{cmpopts.EquateComparable(netip.Prefix{}), cmpopts.IgnoreUnexported(iof.Config{})}

func TestDefaults(t *testing.T) {
	f, apps, _, err := parse("./a.out")
	if err != nil {
		t.Fatal(err)
	}
	want := RunFlags{
		HostFlags:  HostFlags{Wait: 5 * time.Minute},
		LeaseFlags: LeaseFlags{LauncherTimeout: time.Minute, NodeTimeout: 30 * time.Second, Grace: 5 * time.Second},
		Wishes: run.Wishes{Frameworks: frameworks.Auto,
			Stall: hang.Config{After: 5 * time.Minute, Progress: progress.Config{Rank: progress.First}, WatchWindow: time.Minute}},
		LastCall: 30 * time.Second,
		Stdin:    "0", MPI: "auto",
	}
	if d := cmp.Diff(want, f, values); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]job.App{{Argv: []string{"./a.out"}, AlsoWdir: true, Wdir: "/work"}}, apps); d != "" {
		t.Error(d)
	}
	if entries, err := f.Entries(); entries != nil || err != nil {
		t.Error(entries, err)
	}
}

func TestFlags(t *testing.T) {
	for _, tt := range []struct {
		line string
		want func(f *RunFlags)
	}{
		{"-n 4", func(f *RunFlags) { f.Program.N = 4 }},
		{"-n4", func(f *RunFlags) { f.Program.N = 4 }},
		{"-np 4", func(f *RunFlags) { f.Program.N = 4 }},
		{"-np=4", func(f *RunFlags) { f.Program.N = 4 }},
		{"--np 4", func(f *RunFlags) { f.Program.N = 4 }},
		{"--n=4", func(f *RunFlags) { f.Program.N = 4 }},
		{"-N 2", func(f *RunFlags) { f.Policy.PerNode = 2 }},
		{"-ppn 2", func(f *RunFlags) { f.Policy.PerNode = 2 }},
		{"--map-by ppr:8:node", func(f *RunFlags) { f.Policy.PerNode, f.Policy.Binding.Map = 8, layout.Mapping{Policy: "ppr", N: 8} }},
		{"--map-by ppr:8:node -N 8", func(f *RunFlags) { f.Policy.PerNode, f.Policy.Binding.Map = 8, layout.Mapping{Policy: "ppr", N: 8} }},
		{"-map-by node -N 2", func(f *RunFlags) { f.Policy.PerNode, f.Policy.Binding.Map.Policy = 2, "node" }},
		{"--map-by slot:OVERSUBSCRIBE", func(f *RunFlags) {
			f.Policy.Oversubscribe, f.Policy.Binding.Map = true, layout.Mapping{Policy: "slot", Slots: layout.Allowed}
		}},
		{"--map-by Socket:PE=2,span --rank-by core:span", func(f *RunFlags) {
			f.Policy.Binding.Map = layout.Mapping{Policy: "object", Object: layout.Package, PE: 2, Span: true}
			f.Policy.Binding.Rank = layout.Ranking{By: "object", Object: layout.Core, Span: true}
		}},
		{"--bind-to core:overload-allowed", func(f *RunFlags) {
			f.Policy.Binding.Bind = layout.Target{Said: true, To: layout.Core, Overload: true}
		}},
		{"--report-bindings --display-map --rankfile r", func(f *RunFlags) {
			f.ReportBindings, f.DisplayMap, f.Rankfile = true, true, "r"
		}},
		{"--host w0:2,w1", func(f *RunFlags) { f.Hosts = []string{"w0:2,w1"} }},
		{"--hosts w0 -host w1 -H w2", func(f *RunFlags) { f.Hosts = []string{"w0", "w1", "w2"} }},
		{"--timeout 5 --wait 1m30s", func(f *RunFlags) { f.Timeout, f.Wait = 5*time.Second, 90*time.Second }},
		{"--timeout=0 --grace 10ms", func(f *RunFlags) { f.Timeout, f.Grace = 0, 10*time.Millisecond }},
		{"--node-timeout 2.5 --launcher-timeout 2h", func(f *RunFlags) { f.NodeTimeout, f.LauncherTimeout = 2500*time.Millisecond, 2*time.Hour }},
		{"--preempt-signal SIGUSR1 --checkpoint-dir /saved", func(f *RunFlags) { f.Preempt.Signal, f.Preempt.CheckpointDir = job.SIGUSR1, "/saved" }},
		{"-tag-output -timestamp", func(f *RunFlags) { f.TagOutput, f.Output = true, iof.Config{Mode: iof.Tag, Timestamps: true} }},
		{"--tag-with host,stream", func(f *RunFlags) {
			f.TagOutput, f.Output = true, iof.Config{Mode: iof.Tag, TagHost: true, TagStream: true}
		}},
		{"--tag --output-dir /tmp/o", func(f *RunFlags) { f.TagOutput, f.Output = true, iof.Config{Mode: iof.Tag, Dir: "/tmp/o"} }},
		{"--output json --worker-logs", func(f *RunFlags) { f.Output.Mode, f.WorkerLogs = iof.JSON, true }},
		{"--stdin 3 --mpi pmi-port --oversubscribe --dry-run", func(f *RunFlags) {
			f.Stdin, f.MPI, f.Policy.Oversubscribe, f.DryRun = "3", "pmi-port", true, true
		}},
		{"--gpus-per-rank 2 --gpu-bind closest", func(f *RunFlags) { f.GPUs = gpu.Wish{PerRank: 2, Closest: true} }},
		{"-gpus-per-proc 1", func(f *RunFlags) { f.GPUs.PerRank = 1 }},
		{"--gpu-bind map:0,1,0", func(f *RunFlags) { f.GPUs.Sets = []idset.Set{idset.Of(0), idset.Of(1), idset.Of(0)} }},
		{"--stdin all -vv", func(f *RunFlags) { f.Stdin, f.Verbose = "all", 2 }},
		{"-vn2", func(f *RunFlags) { f.Verbose, f.Program.N = 1, 2 }},
		{"--key k --job j --size 3", func(f *RunFlags) { f.KeyFile, f.Scope, f.Size = "k", "j", 3 }},
		{"--insecure", func(f *RunFlags) { f.Insecure = true }},
		{"-x A -xB=1 -x=C --export D=2,3", func(f *RunFlags) { f.Program.Env = []string{"A", "B=1", "C", "D=2,3"} }},
	} {
		for _, sep := range []string{" ", " -- "} {
			want, _, _, err := parse("./a.out")
			if err != nil {
				t.Fatal(err)
			}
			tt.want(&want)
			got, apps, _, err := parse(tt.line + sep + "./a.out -n 9 --host x -- -np")
			if err != nil {
				t.Errorf("%s: %v", tt.line, err)
				continue
			}
			if d := cmp.Diff(want, got, values); d != "" {
				t.Errorf("%s: %s", tt.line, d)
			}
			if d := cmp.Diff(strings.Fields("./a.out -n 9 --host x -- -np"), apps[0].Argv); d != "" {
				t.Errorf("%s: %s", tt.line, d)
			}
		}
	}
}

func TestApps(t *testing.T) {
	for _, tt := range []struct {
		line string
		want []job.App
		warn string
	}{
		{"-n 1 -x A=1 ./a -v : -n 3 --wdir sub -x HOME ./b c", []job.App{
			{Argv: []string{"./a", "-v"}, N: 1, Env: []string{"A=1"}, AlsoWdir: true, Wdir: "/work"},
			{Argv: []string{"./b", "c"}, N: 3, Env: []string{"HOME=/root"}, AlsoWdir: true, Wdir: "/work/sub", WdirExplicit: true},
		}, ""},
		{"-np 1 a : -np 2 -- -odd : --np=3 -wdir /x c", []job.App{
			{Argv: []string{"a"}, N: 1, AlsoWdir: true, Wdir: "/work"},
			{Argv: []string{"-odd"}, N: 2, AlsoWdir: true, Wdir: "/work"},
			{Argv: []string{"c"}, N: 3, AlsoWdir: true, Wdir: "/x", WdirExplicit: true},
		}, ""},
		{"-n 1 -- a : b", []job.App{{Argv: []string{"a"}, N: 1, AlsoWdir: true, Wdir: "/work"}, {Argv: []string{"b"}, AlsoWdir: true, Wdir: "/work"}}, ""},
		{"-x NOPE -x EMPTY -x A=1 -x A=2 -x AB= a : -x NOPE b", []job.App{
			{Argv: []string{"a"}, Env: []string{"EMPTY=", "A=2", "AB="}, AlsoWdir: true, Wdir: "/work"},
			{Argv: []string{"b"}, AlsoWdir: true, Wdir: "/work"},
		}, "-x NOPE: not set in this environment, so ranks do not get it"},
		{"-x A=1,2 -x B=1,C=2 -x D=x,e=3 a", []job.App{{Argv: []string{"a"}, Env: []string{"A=1,2", "B=1,C=2", "D=x,e=3"}, AlsoWdir: true, Wdir: "/work"}},
			`-x "B=1,C=2": the value goes to the end of the word, and sets no "C"; for two variables write -x twice`},
		{"sh -c echo:x :y", []job.App{{Argv: []string{"sh", "-c", "echo:x", ":y"}, AlsoWdir: true, Wdir: "/work"}}, ""},
	} {
		_, apps, warn, err := parse(tt.line)
		if err != nil {
			t.Errorf("%s: %v", tt.line, err)
		} else if d := cmp.Diff(tt.want, apps); d != "" || strings.Join(warn, "|") != tt.warn {
			t.Errorf("%s: %s %q", tt.line, d, warn)
		}
	}
}

func TestRefuses(t *testing.T) {
	for _, tt := range []struct{ line, want string }{
		{"", "no program is named; try: mpiup run -n 4 ./a.out"},
		{"-n 4", "no program is named; try: mpiup run -n 4 ./a.out"},
		{"-n", "-n needs a value"},
		{"--host", "--host needs a value"},
		{"-n x a", `-n: "x" is not a number`},
		{"-n 0 a", `-n: "0" is out of range; use 1 to 1048576`},
		{"-np -3 a", `-n: "-3" is out of range; use 1 to 1048576`},
		{"-n 99999999999999999999 a", `-n: "99999999999999999999" is out of range; use 1 to 1048576`},
		{"--oversubscibe a", "unknown flag --oversubscibe; did you mean --oversubscribe?"},
		{"--hostsfile f a", "unknown flag --hostsfile; did you mean --hostfile?"},
		{"--frobnicate a", "unknown flag --frobnicate; --help lists the flags (a flag of the program stands after the program)"},
		{"-z a", "unknown flag -z; --help lists the flags (a flag of the program stands after the program)"},
		{"-tag-ouput a", "unknown flag -tag-ouput; did you mean --tag-output?"},
		{"--mca btl self a", "unknown flag --mca; write -x OMPI_MCA_name=value"},
		{"--nproc_per_node 2 a", "unknown flag --nproc_per_node; write -N"},
		{"--nodes 2 a", "unknown flag --nodes; write --host w0,w1 for the hosts, and -N for the ranks on each"},
		{"--ntasks 2 a", "unknown flag --ntasks; write -n"},
		{"-e A=1 a", "unknown flag -e; write -x NAME=value"},
		{"--tag_output a", "unknown flag --tag_output; did you mean --tag-output?"},
		{"--cpu-bind core a", "unknown flag --cpu-bind; write --bind-to"},
		{"--version", "unknown flag --version; write mpiup --version"},
		{"--slots 8 a", "unknown flag --slots; write --host with the slots behind the hosts, w0:8,w1:8, or slots=8 into the hostfile"},
		{"--host w0:2 w1:2 a", `"w1:2" stands where the program should; write all hosts in one word, --host w0:2,w1:2`},
		{"--host w0 w1 w2:3 a", `"w1" stands where the program should; write all hosts in one word, --host w0,w1,w2:3`},
		{"--host a0 --host w0.s w1.s", `"w1.s" stands where the program should; write all hosts in one word, --host a0,w0.s,w1.s`},
		{"--allow-run-as-root a", "unknown flag --allow-run-as-root; leave it out, any user may run"},
		{"--=x a", `"--=x" is not a flag`},
		{"--timeout -5 a", `--timeout: "-5" is negative; use 0 or more`},
		{"--timeout -1m a", `--timeout: "-1m" is negative; use 0 or more`},
		{"--timeout NaN a", `--timeout: "NaN" is not a time; write 30, 30s, 5m or 1h30m`},
		{"--timeout 1e3 a", `--timeout: "1e3" is not a time; write 30, 30s, 5m or 1h30m`},
		{"--timeout 5x a", `--timeout: "5x" is not a time; write 30, 30s, 5m or 1h30m`},
		{"--timeout= a", `--timeout: "" is not a time; write 30, 30s, 5m or 1h30m`},
		{"--timeout 99999999999999 a", `--timeout: "99999999999999s" is too long a time`},
		{"--wait 0 a", "--wait: no time at all; use more than 0"},
		{"--node-timeout 10ms a", "--node-timeout 10ms is too short to tell silence from a busy machine; use 1s or more"},
		{"--timeout 1:30 a", `--timeout: "1:30" may be minutes or hours; write 1m30s or 1h30m`},
		{"--svg plan.png a", "--svg: the picture is SVG, not png; write plan.svg, which a browser shows"},
		{"--listen 127.0.0.1 a", "unknown flag --listen; write --host for where agents are: only mpiup agent listens"},
		{"--address w0 a", "unknown flag --address; write --host for where agents are"},
		{"--output xml a", `--output: "xml" is not known; use plain, tag or json (files are written by --output-dir DIR)`},
		{"--output json --tag-output a", "--tag-output and --output json are two forms of output; give one (json names the rank too)"},
		{"--mpi pmi3 a", `--mpi: "pmi3" is not known; use auto, pmix, pmi1, pmi2, pmi-port, none or native`},
		{"--net 10.98.0.1 a", `--net: 10.98.0.1 is one address; name an interface or a network such as 10.98.0.0/16`},
		{"--net eth0,net1 a", `--net: "eth0,net1" is no interface's name; write one as net1 or a network as 10.98.0.0/16`},
		{"--net= a", `--net: the value is empty; name an interface or a network`},
		{"--mpi-ports 18000 a", `--mpi-ports: "18000" is no range of ports; write it as 18000-18999`},
		{"--mpi-ports 18999-18000 a", `--mpi-ports: 18999-18000 ends before it begins`},
		{"--mpi-ports 22-80 a", `--mpi-ports: ports below 1024 are the system's; write a range as 18000-18999`},
		{"--mpi-ports= a", `--mpi-ports: the value is empty; write a range as 18000-18999`},
		{"--max-np 4 a", "--max-np 4: an elastic job needs --min-np too, the fewest ranks with which it goes on"},
		{"--min-np 2 a", "--min-np 2: when a host is lost the ranks start again; say with --max-restarts how often they may"},
		{"--min-np 4 --max-np 2 --max-restarts 1 a", "--max-np 2 is less than --min-np 4"},
		{"--gpus-per-rank 0 a", `--gpus-per-rank: "0" is out of range; use 1 to 1048576`},
		{"--gpus-per-rank 999 a", `--gpus-per-rank: 999 is out of range; use 1 to 256`},
		{"--gpu-bind none a", `--gpu-bind: "none" is not known; use closest, map:0,1 or mask:0x3,0xc`},
		{"--gpu-bind= a", `--gpu-bind: the value is empty; use closest, map:0,1 or mask:0x3,0xc`},
		{"--gpu-bind map:0 --gpus-per-rank 1 a", `--gpu-bind lists each rank's GPUs already; leave out --gpus-per-rank`},
		{"--stdin -1 a", `--stdin: "-1" is not known; use a rank, all or none`},
		{"--stdin some a", `--stdin: "some" is not known; use a rank, all or none`},
		{"--map-by board a", `--map-by: "board" is not known; use slot, node, ppr:N:node or an object such as socket`},
		{"--map-by ppr:0:node a", `--map-by: "0" is no number from 1 to 1048576`},
		{"--map-by ppr:2:rack a", `--map-by: ranks are counted per node or object, and "rack" is none: write ppr:N:node or ppr:N:numa`},
		{"--map-by ppr:2:numa -N 3 a", "-N 3 and --map-by ppr:2:numa ask for different numbers of ranks on a host; give one"},
		{"--map-by core:PE=x a", `--map-by: modifier PE=x: "x" is no number from 1 to 1048576`},
		{"--map-by rankfile a", "--map-by rankfile needs --rankfile FILE"},
		{"--rank-by rack a", `--rank-by: "rack" is not known; use slot, node or an object such as socket`},
		{"--bind-to rack a", `--bind-to: "rack" is not known; use none, hwthread, core, l3cache, numa or socket`},
		{"--bind-to core:often a", `--bind-to: modifier "often" is not known`},
		{"--bind-to cpu-list a", "--bind-to cpu-list needs --cpu-set with the CPUs"},
		{"--cpu-set 3-1 a", `--cpu-set: CPUs "3-1": "3-1" runs backwards`},
		{"--rankfile f --bind-to core a", "--rankfile says where each rank goes, and other flags say it too; leave them out"},
		{"--map-by ppr:2:node -N 3 a", "-N 3 and --map-by ppr:2:node ask for different numbers of ranks on a host; give one"},
		{"--host w0:0 a", "--host: host w0: 0 slots; a host has at least 1, so leave out a host that is to run nothing"},
		{"--host= a", "--host: the host list is empty; write host[:slots],host[:slots]"},
		{"--host w0 --host w1,w0 a", "--host: host w0 is named twice; write it once with its slots, w0:2"},
		{"--host w0 --hostfile f a", "--host and --hostfile both name the hosts; give one"},
		{"--hostfile /nonexistent a", "hostfile /nonexistent: no such file or directory; name a readable file, or the hosts with --host"},
		{"--insecure --key k a", "--insecure is for having no secret; leave it out, or --key and --tls-dir"},
		{"--key k --tls-dir d a", "--key and --tls-dir are two ways to prove who is who; give one"},
		{"--key= a", "--key: the value is empty; name a file"},
		{"-x =1 a", `-x: "=1" names no variable; write VAR or VAR=value`},
		{"-x A,B a", `-x: "A,B": repeat -x for every variable`},
		{"-x A,B=1 a", `-x: "A,B=1": repeat -x for every variable`},
		{"--export=ALL a", "-x: ALL is srun's word: ranks have their container's environment; write -x NAME, or patterns such as -x 'NCCL_*', for what they get of this one"},
		{"--export=NONE a", "-x: NONE is srun's word: ranks get nothing of this environment that -x does not name; leave it out"},
		{"--export=ALL,FOO=1 a", `-x: "ALL,FOO=1" is srun's spelling: write -x "FOO=1", and -x for each more variable; ranks have their container's environment besides`},
		{"-c4 a", "unknown flag -c4; write --map-by slot:PE=N for the CPUs of each rank, as srun's -c; -n for ranks, as docker's"},
		{"-c 4 a", "unknown flag -c; write --map-by slot:PE=N for the CPUs of each rank, as srun's -c; -n for ranks, as docker's"},
		{"-x * a", "-x: * is all of this environment, PATH and HOME too; write patterns such as NCCL_*"},
		{"-x A*B* a", "-x: \"A*B*\": a pattern ends in its one *, and has no value"},
		{"--wrap x gdb a", "--wrap: \"x\" names no ranks; write --wrap 0,4-7 COMMAND, or --wrap all COMMAND"},
		{"--independent --env torch a", "--independent starts programs that are no job; leave out --mpi and --env"},
		{"--independent --mpi pmix a", "--independent starts programs that are no job; leave out --mpi and --env"},
		{"-x LONG a", `-x "LONG": 131076 bytes are more than the 131071 a variable can have`},
		{"a :", `program 2 has no name; a program stands on each side of ":"`},
		{": a", `program 1 has no name; a program stands on each side of ":"`},
		{"a : : b", `program 2 has no name; a program stands on each side of ":"`},
		{"a : -n 2", `program 2 has no name; a program stands on each side of ":"`},
		{"a : --timeout 5 b", "program 2: --timeout concerns the whole run and stands before the first program"},
		{"a : -N 5 b", "program 2: -N concerns the whole run and stands before the first program"},
		{"a : -hosts w0 b", "program 2: --hosts concerns the whole run and stands before the first program"},
		{"a : --frob b", "program 2: unknown flag --frob; --help lists the flags (a flag of the program stands after the program)"},
		{"a : -n y b", `program 2: -n: "y" is not a number`},
		{"a : --help", "program 2: --help stands before the first program"},
	} {
		if _, _, _, err := parse(tt.line); err == nil || err.Error() != tt.want {
			t.Errorf("%s\n got %v\nwant %s", tt.line, err, tt.want)
		}
	}
	if _, _, _, err := parseWords([]string{"-x", "A B=1", "a"}); err == nil || err.Error() != `-x: "A B=1" has a space in its name` {
		t.Error(err)
	}
	if _, _, _, err := parseWords([]string{"-n", "2", ""}); err == nil {
		t.Error("an empty program name is taken")
	}
}

func TestEntries(t *testing.T) {
	f, _, _, err := parse("--host w0:2 --host [::1],w1 a")
	if err != nil {
		t.Fatal(err)
	}
	entries, err := f.Entries()
	want := []hostlist.Entry{{Name: "w0", Slots: 2, Given: true}, {Name: "::1"}, {Name: "w1"}}
	if d := cmp.Diff(want, entries); d != "" || err != nil {
		t.Error(d, err)
	}
}

func TestHelp(t *testing.T) {
	fs := pflag.NewFlagSet("run", pflag.ContinueOnError)
	new(RunFlags).Register(fs)
	got := Usages(fs, 110, true) + "\nExamples:\n" + RunExample + "\n"
	golden.Is(t, "testdata/help.txt", got)
	fs.VisitAll(func(f *pflag.Flag) {
		isBool := f.NoOptDefVal != ""
		if !isBool && !strings.Contains(f.Usage, "default") && (f.DefValue == "" || f.DefValue == "0" && f.Name != "stdin") {
			t.Errorf("--%s: the help does not say its default", f.Name)
		}
		if !isBool && !strings.Contains(f.Usage, "`") {
			t.Errorf("--%s: the help does not name its value", f.Name)
		}
	})
}

// The examples in the help are command lines that parse.
func TestExamples(t *testing.T) {
	for line := range strings.Lines(RunExample) {
		line, _, _ = strings.Cut(line, " #")
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "mpiup" || words[1] != "run" {
			t.Fatal(line)
		}
		_, _, _, err := parseWords(words[2:])
		if err != nil && !strings.Contains(err.Error(), "hostfile hosts: no such file") {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// Under cobra flags, aliases, completion and help work as they do alone.
func TestUnderCobra(t *testing.T) {
	var f RunFlags
	var got []string
	cmd := &cobra.Command{Use: "run", SilenceUsage: true, SilenceErrors: true,
		RunE: func(_ *cobra.Command, args []string) error { got = args; return nil }}
	f.Register(cmd.Flags())
	if err := f.RegisterCompletion(cmd); err != nil {
		t.Fatal(err)
	}
	root := &cobra.Command{Use: "mpiup", SilenceUsage: true, SilenceErrors: true}
	root.AddCommand(cmd, &cobra.Command{Use: "agent"})
	words := strings.Fields("-np 3 --hosts w0 -v agent run -n 9 : -h b")
	root.SetArgs(append([]string{"run"}, Dashes(cmd.Flags(), words)...))
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(strings.Fields("agent run -n 9 : -h b"), got); d != "" || f.Program.N != 3 || f.Verbose != 1 || len(f.Hosts) != 1 {
		t.Errorf("%s %+v", d, f)
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"5", "0.5", "1h30m", "-1", "NaN", "1e9", "99999999999h", ".", "5m5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		defer cost.Watch(t, cost.Parser, len(s))()
		if d, err := ParseDuration(s); err == nil && d < 0 {
			t.Fatalf("%q is %v", s, d)
		}
	})
}

func FuzzCommandLine(f *testing.F) {
	for _, s := range []string{"-n 4 a", "-np=4 -x A -- a : -n 2 b", "-vvn", "--host=w0 -", "-", "--", "- :", "-=", "--x=", "-\xff"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		defer cost.Watch(t, cost.Parser, len(line))()
		words := strings.Split(line, " ")
		for _, w := range words {
			if strings.Contains(w, "file") { // opens what it names
				return
			}
		}
		_, apps, _, err := parseWords(words)
		if err != nil {
			return
		}
		for _, a := range apps {
			if len(a.Argv) == 0 || a.Argv[0] == "" || a.N < 0 || a.N > maxCount || a.Wdir == "" {
				t.Fatalf("%q: %+v", line, a)
			}
		}
	})
}

func TestElastic(t *testing.T) {
	for _, tt := range []struct {
		line string
		want job.Elastic
		err  string
	}{
		{"-n 4 a", job.Elastic{Begin: 4, Max: 4, LastCall: DefaultLastCall}, ""},
		{"-n 4 --min-np 2 --max-restarts 1 a", job.Elastic{Min: 2, Begin: 4, Max: 4, LastCall: DefaultLastCall}, ""},
		{"--min-np 2 --max-np 8 --max-restarts 1 --last-call 0 a", job.Elastic{Min: 2, Max: 8}, ""},
		{"-n 4 --min-np 2 --max-np 8 --max-restarts 1 a", job.Elastic{Min: 2, Begin: 4, Max: 8, LastCall: DefaultLastCall}, ""},
		{"-n 9 --min-np 2 --max-np 8 --max-restarts 1 a", job.Elastic{}, "-n 9 is not within --min-np 2 and --max-np 8"},
		{"-n 1 --min-np 2 --max-restarts 1 a", job.Elastic{}, "-n 1 is not within --min-np 2"},
	} {
		f, apps, _, err := parse(tt.line)
		if err != nil {
			t.Fatal(err)
		}
		e, err := f.Elastic(apps[0].N)
		if tt.err == "" && (err != nil || e != tt.want) || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
			t.Errorf("%s: %+v, %v", tt.line, e, err)
		}
	}
}
