package training

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// rows are all options of horovod 0.28.
func (l *Horovodrun) rows() []line.Row {
	return append(append(l.ownRows(), l.tunables()...), []line.Row{
		{Names: "--verbose", Level: line.Done, Means: "says what mpiup does", Set: func([]string) error { l.add("-v"); return nil }},
		{Names: "--version -v", Level: line.Done, Means: "says which launcher is imitated", Set: line.True(&l.Read.Line.Version)},
		{Names: "--help -h", Level: line.Done, Means: "lists the options", Set: line.True(&l.Read.Line.Help)},
		{Names: "--disable-cache", Level: line.NoEffect, Means: "nothing is looked for that could be kept"},
		{Names: "--ssh-port -p", Args: 1, Level: line.NoEffect, Means: "there is no ssh"},
		{Names: "--ssh-identity-file -i", Args: 1, Level: line.Done, Means: "the job's key, where the pod mounts none", Set: func(v []string) error {
			l.SSHArgs = "-i " + v[0]
			l.add("--mca", "plm_rsh_args", l.SSHArgs)
			return nil
		}},
		{Names: "--check-build -cb", Level: line.Refused,
			Means: "ask Horovod itself: python3 -c 'from horovod.runner.launch import check_build; check_build(False)'"},
		{Names: "--config-file", Args: 1, Level: line.Refused, Means: "write its settings as options, or as -x HOROVOD_... of mpiup run"},
		{Names: "--jsrun", Level: line.Refused, Means: "there is no jsrun in pods: leave it out"},
		{Names: "--min-np --min-num-proc", Args: 1, Level: line.Done, Means: "elastic, see above: the fewest ranks with which the job goes on", Set: l.own},
		{Names: "--max-np --max-num-proc", Args: 1, Level: line.Done, Means: "elastic: the most", Set: l.own},
		{Names: "--slots-per-host", Args: 1, Level: line.Done,
			Means: "elastic: ranks of a host for which the script of `--host-discovery-script` names no slots", Set: l.own},
		{Names: "--elastic-timeout", Args: 1, Level: line.Done, Means: "elastic: how long `--min-np` ranks' hosts are waited for, in seconds (600)", Set: l.own},
		{Names: "--reset-limit", Args: 1, Level: line.Done, Means: "elastic: how often ranks may meet anew", Set: l.own},
		{Names: "--blacklist-cooldown-range", Args: 2, Level: line.Done,
			Means: "elastic: after how many seconds, at least and at most, a host whose rank failed may come back; without it never", Set: l.own},
		{Names: "--host-discovery-script", Args: 1, Level: line.Done,
			Means: "elastic: what prints `HOST:SLOTS` of each host, without it the job's membership",
			Set:   func([]string) error { l.Elastic, l.Scripted = true, true; return nil }},
	}...)
}

func (l *Horovodrun) ownRows() []line.Row {
	return []line.Row{
		{Names: "-np --num-proc", Args: 1, Level: line.Done, Means: "how many ranks", Set: l.ranks},
		{Names: "-H --hosts", Args: 1, Level: line.Done,
			Means: "the hosts and their slots, `a:4,b:4`; without them those that the pod is told of, else this machine",
			Set:   func(v []string) error { return l.hosts("-H", v[0]) }},
		{Names: "-hostfile --hostfile", Args: 1, Level: line.Done, Means: "a file with the hosts, `name slots=N` a line",
			Set: func(v []string) error { return l.hosts("--hostfile", v[0]) }},
		{Names: "--gloo", Level: line.Done, Means: "ranks meet by Gloo, at their agents; without it as Horovod was built", Set: line.True(&l.Gloo)},
		{Names: "--mpi", Level: line.Done, Means: "ranks meet by MPI", Set: line.True(&l.MPI)},
		{Names: "--network-interfaces --network-interface", Args: 1, Level: line.Done,
			Means: "the interfaces, with commas between: for NCCL and Open MPI all, for Gloo the first", Set: l.interfaces},
		{Names: "--start-timeout", Args: 1, Level: line.Done,
			Means: "how long to wait for all hosts, in seconds; also `HOROVOD_START_TIMEOUT`. Without it mpiup's own 5 minutes", Set: l.start},
		{Names: "--output-filename", Args: 1, Level: line.Done, Means: "each rank's output goes to `DIR/rank.N/stdout` and `stderr` too",
			Set: func(v []string) error { l.add("--output-filename", v[0]+":nojobid"); return nil }},
		{Names: "--prefix-output-with-timestamp -prefix-timestamp", Level: line.Done, Means: "the time before each line",
			Set: func([]string) error { l.add("--timestamp-output"); return nil }},
		{Names: "--mpi-args", Args: 1, Level: line.Done, Means: "words for the launcher, read as Open MPI's ([mpirun.md](mpirun.md))",
			Set: func(v []string) error { return l.extra(&l.more, v[0]) }},
		{Names: "--binding-args", Args: 1, Level: line.Done, Means: "how ranks are bound, in the same words",
			Set: func(v []string) error { l.bound = true; return l.extra(&l.more, v[0]) }},
		{Names: "--tcp", Level: line.Done, Means: "no RDMA: `NCCL_IB_DISABLE=1`, and TCP for Open MPI", Set: func([]string) error {
			l.add("-x", "NCCL_IB_DISABLE=1", "-mca", "pml", "ob1", "-mca", "btl", "^openib")
			return nil
		}},
	}
}

// tunables are options that become a variable of the ranks (runner/common/util/config_parser.py).
func (l *Horovodrun) tunables() (list []line.Row) {
	add := func(names, variable string, args int, value func(string) (string, error)) {
		means := "`" + variable + "`"
		list = append(list, line.Row{Names: names, Args: args, Level: line.Done, Means: means, Set: func(v []string) error {
			text := ""
			if len(v) > 0 {
				text = v[0]
			}
			text, err := value(text)
			if err != nil {
				return err
			}
			l.add("-x", variable+"="+text)
			return nil
		}})
	}
	is := func(text string) func(string) (string, error) {
		return func(string) (string, error) { return text, nil }
	}
	add("--fusion-threshold-mb", "HOROVOD_FUSION_THRESHOLD", 1, func(v string) (string, error) {
		n, err := strconv.ParseUint(v, 10, 32)
		if err != nil {
			return "", errWhole
		}
		return strconv.FormatUint(n<<20, 10), nil
	})
	for _, t := range []struct{ name, variable string }{
		{"--cycle-time-ms", "HOROVOD_CYCLE_TIME"}, {"--autotune-gaussian-process-noise", "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE"}} {
		add(t.name, t.variable, 1, func(v string) (string, error) {
			f, err := strconv.ParseFloat(v, 64)
			if err != nil || !(f >= 0) { // nan is none
				return "", errors.New("that is no number of 0 or more")
			}
			return v, nil
		})
	}
	for _, t := range []struct{ name, variable string }{
		{"--cache-capacity", "HOROVOD_CACHE_CAPACITY"}, {"--autotune-warmup-samples", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES"},
		{"--autotune-steps-per-sample", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE"}, {"--autotune-bayes-opt-max-samples", "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES"},
		{"--stall-check-warning-time-seconds", "HOROVOD_STALL_CHECK_TIME_SECONDS"}, {"--stall-check-shutdown-time-seconds", "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"},
		{"--num-nccl-streams", "HOROVOD_NUM_NCCL_STREAMS"}, {"--thread-affinity", "HOROVOD_THREAD_AFFINITY"},
		{"--gloo-timeout-seconds", "HOROVOD_GLOO_TIMEOUT_SECONDS"},
	} {
		add(t.name, t.variable, 1, whole)
	}
	for _, t := range []struct{ name, variable string }{{"--autotune-log-file", "HOROVOD_AUTOTUNE_LOG"}, {"--timeline-filename", "HOROVOD_TIMELINE"}} {
		add(t.name, t.variable, 1, func(v string) (string, error) { return v, nil })
	}
	add("--log-level", "HOROVOD_LOG_LEVEL", 1, func(v string) (string, error) {
		if slices.Contains([]string{"TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL"}, v) {
			return v, nil
		}
		return "", errors.New("the levels are TRACE, DEBUG, INFO, WARNING, ERROR and FATAL")
	})
	for _, t := range []struct{ yes, no, variable string }{
		{"--hierarchical-allreduce", "--no-hierarchical-allreduce", "HOROVOD_HIERARCHICAL_ALLREDUCE"},
		{"--hierarchical-allgather", "--no-hierarchical-allgather", "HOROVOD_HIERARCHICAL_ALLGATHER"},
		{"--torus-allreduce", "--no-torus-allreduce", "HOROVOD_TORUS_ALLREDUCE"},
		{"--autotune", "--no-autotune", "HOROVOD_AUTOTUNE"}, {"--timeline-mark-cycles", "--no-timeline-mark-cycles", "HOROVOD_TIMELINE_MARK_CYCLES"},
		{"--no-stall-check", "--stall-check", "HOROVOD_STALL_CHECK_DISABLE"}, {"--mpi-threads-disable", "--no-mpi-threads-disable", "HOROVOD_MPI_THREADS_DISABLE"},
		{"--log-without-timestamp --log-hide-timestamp", "--log-with-timestamp --no-log-hide-timestamp", "HOROVOD_LOG_HIDE_TIME"},
	} {
		add(t.yes, t.variable, 0, is("1"))
		add(t.no, t.variable, 0, is("0"))
	}
	return list
}

var errWhole = errors.New("that is no whole number of 0 or more")

func whole(v string) (string, error) {
	if _, err := strconv.ParseUint(v, 10, 32); err != nil {
		return "", errWhole
	}
	return v, nil
}

// own notes an option of Horovod's elastic driver, which reads its value.
func (l *Horovodrun) own([]string) error { l.Elastic = true; return nil }

func (l *Horovodrun) ranks(v []string) error {
	if n, err := strconv.Atoi(v[0]); err != nil || n < 1 {
		return errors.New("that is no number of ranks")
	}
	l.np = true
	l.add("-np", v[0])
	return nil
}

func (l *Horovodrun) hosts(option, value string) error {
	if l.Hosted {
		return errors.New("the hosts are named already; give -H or --hostfile, once")
	}
	l.Hosted = true
	l.Hosts = []string{map[string]string{"-H": "--host", "--hostfile": "--hostfile"}[option], value}
	l.add(option, value)
	return nil
}

func (l *Horovodrun) start(v []string) (err error) {
	l.Start, err = Seconds(v[0])
	return err
}

// StartVariable has the value of --start-timeout where that is not given.
const StartVariable = "HOROVOD_START_TIMEOUT"

func (l *Horovodrun) interfaces(v []string) error {
	for name := range strings.SplitSeq(v[0], ",") {
		if name == "" {
			return errors.New("an interface has a name")
		}
		l.nics = append(l.nics, name)
	}
	return nil
}

// extra takes words of one argument apart, as horovodrun's shell would where nothing is quoted.
func (l *Horovodrun) extra(to *[]string, text string) error {
	if i := strings.IndexAny(text, "'\"\\$`"); i >= 0 {
		return fmt.Errorf("quotes and %q are not taken apart here: give mpirun these words itself", text[i])
	}
	*to = append(*to, line.Words(text)...)
	return nil
}
