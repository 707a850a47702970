package training

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// variable is the one that torchrun reads where the option is not given.
func variable(r *line.Row) string {
	return "PET_" + strings.ToUpper(strings.ReplaceAll(strings.TrimPrefix(r.Name(), "--"), "-", "_"))
}

// rows are all options of torch 2.15.
func (l *Torchrun) rows() []line.Row {
	text := func(to *string) func([]string) error {
		return func(v []string) error { *to = v[0]; return nil }
	}
	return []line.Row{
		{Names: "--nnodes", Args: 1, Level: line.Done, Means: "how many nodes; without it 1, this pod. A range (`1:4`): the ranks start again with the nodes there are, as by `mpiup run --min-np --max-np` ([restart.md](restart.md)); where each pod starts its own node's ranks, those that come in time, and again when one more comes", Set: l.nodes},
		{Names: "--nproc-per-node", Args: 1, Level: line.Done, Means: "ranks of each node; `gpu`, `cpu` and `auto` where the line is for this pod", Set: l.processes},
		{Names: "--node-rank", Args: 1, Level: line.Done, Means: "which of the nodes this pod is: its ranks are started, and no others. With `c10d` a wish: without it the nodes' torchruns number themselves", Set: l.nodeRank},
		{Names: "--standalone", Level: line.Done, Means: "this pod alone; what is said of nodes does not count", Set: line.True(&l.standalone)},
		{Names: "--master-addr", Args: 1, Level: line.Done, Means: "where node 0 is: the nodes' torchruns meet there, and then its rank 0 listens there", Set: text(&l.addr)},
		{Names: "--master-port", Args: 1, Level: line.Done,
			Means: "the port there, without it 29500; a free one where the line is for all nodes, or for one alone", Set: text(&l.port)},
		{Names: "--rdzv-endpoint", Args: 1, Level: line.Done, Means: "both, `HOST:PORT`; with `c10d` (port 29400 unless said) the torchrun of the pod that has the address listens there all the time, and rank 0 at a port of its own", Set: text(&l.endpoint)},
		{Names: "--rdzv-backend", Args: 1, Level: line.Done,
			Means: "`static`: nodes have numbers, and rank 0 listens at the address itself; `c10d`: at the endpoint nodes get numbers. Others are refused", Set: l.backend},
		{Names: "--rdzv-id", Args: 1, Level: line.Done, Means: "`TORCHELASTIC_RUN_ID` of the ranks; the same on all nodes, or they do not meet", Set: text(&l.id)},
		{Names: "--max-restarts", Args: 1, Level: line.Done, Means: "when a rank fails or a host is lost, all ranks are started again, so often at most, as by `mpiup run --max-restarts`; what nodes that come lead to does not count. No rank reads standard input then. Where each pod starts its own node's ranks, the host's number counts", Set: l.restarts},
		{Names: "--role", Args: 1, Level: line.Done, Means: "`ROLE_NAME` of the ranks", Set: text(&l.role)},
		{Names: "--module -m", Level: line.Done, Means: "the program is a Python module", Set: line.True(&l.module)},
		{Names: "--no-python", Level: line.Done, Means: "the program is no Python script. Without it `python3`, or `PYTHON_EXEC`, runs it",
			Set: line.True(&l.noPython)},
		{Names: "--log-dir", Args: 1, Level: line.Done, Means: "where the files of the next two go, as `DIR/rank.N/stdout` and `stderr`", Set: text(&l.dir)},
		{Names: "--redirects -r", Args: 1, Level: line.Done, Means: "`3`: both streams of all ranks go to files, and not to the terminal", Set: text(&l.files)},
		{Names: "--tee -t", Args: 1, Level: line.Done,
			Means: "`3`: they go to both, with `[defaultRANK]:` before each line; over several hosts with `[1,RANK]<stdout>:`", Set: text(&l.tee)},
		{Names: "--local-ranks-filter", Args: 1, Level: line.Done, Means: "the local ranks whose output is shown, `0,1`", Set: l.filter},
		{Names: "--shutdown-timeout", Args: 1, Level: line.Done, Means: "seconds between SIGTERM and SIGKILL", Set: l.shutdown},
		{Names: "--rdzv-conf", Args: 1, Level: line.Done, Means: "`join_timeout` (how long all nodes are waited for, of a range the fewest; without it 5 minutes, and 10 where each pod starts its own), `timeout` (the same, of `static`) and, of a range, `last_call_timeout` (then others, 30), in seconds; `is_host=1`: the nodes meet in this pod, `is_host=0`: in another. Other settings have no effect", Set: l.conf},
		{Names: "--help -h", Level: line.Done, Means: "lists the options", Set: line.True(&l.Read.Line.Help)},
		{Names: "--monitor-interval", Args: 1, Level: line.NoEffect, Means: "the end of a rank is noticed at once"},
		{Names: "--start-method", Args: 1, Level: line.NoEffect, Means: "ranks are programs, not functions"},
		{Names: "--event-log-handler", Args: 1, Level: line.NoEffect, Means: "`mpiup run --output json` and the agents' logs have such events"},
		{Names: "--log-line-prefix-template", Args: 1, Level: line.NoEffect, Means: "lines of `--tee` begin as above"},
		{Names: "--local-addr", Args: 1, Level: line.Done, Means: "where other nodes reach rank 0, if it is here; without it at the endpoint's address", Set: text(&l.localAddr)},
		{Names: "--signals-to-handle", Args: 1, Level: line.NoEffect, Means: "INT, TERM, HUP, USR1 and USR2 are passed on"},
		{Names: "--run-path", Level: line.Refused, Means: "each rank is a process of its own here; leave it out"},
		{Names: "--numa-binding", Args: 1, Level: line.Refused, Means: "use mpiup run --bind-to numa"},
		{Names: "--virtual-local-rank", Level: line.Refused, Means: "use mpiup run --gpus-per-rank 1"},
		{Names: "--logs-specs", Args: 1, Level: line.Refused, Means: "it is a Python class; use --log-dir with --redirects 3 or --tee 3"},
		{Names: "--duplicate-stdout-filters", Args: 1, Level: line.Refused, Means: "use grep on the files of --tee 3"},
		{Names: "--duplicate-stderr-filters", Args: 1, Level: line.Refused, Means: "use grep on the files of --tee 3"},
		{Names: "--print-completion", Args: 1, Level: line.Refused, Means: "--help lists the options"},
	}
}

func (l *Torchrun) nodes(v []string) error {
	least, most, ranged := strings.Cut(v[0], ":")
	if !ranged {
		most = least
	}
	n, err := strconv.Atoi(least)
	m, err2 := strconv.Atoi(most)
	switch {
	case err != nil || err2 != nil || n < 1 || m > maxNodes:
		return errors.New("that is no number of nodes")
	case m < n:
		return errors.New("a range is written from the fewest nodes to the most, as 1:4")
	}
	l.Least, l.Nodes = n, m
	return nil
}

// conf reads settings of torch's rendezvous.
func (l *Torchrun) conf(v []string) error {
	for part := range strings.SplitSeq(v[0], ",") {
		key, value, _ := strings.Cut(part, "=")
		if strings.TrimSpace(key) == "is_host" {
			is, err := truth(strings.TrimSpace(value))
			if err != nil {
				return err
			}
			l.hosts = &is
			continue
		}
		to := map[string]*time.Duration{"join_timeout": &l.Join, "last_call_timeout": &l.LastCall, "timeout": &l.timeout}[strings.TrimSpace(key)]
		if to == nil {
			l.Read.Without("--rdzv-conf " + part)
			continue
		}
		var err error
		if *to, err = Seconds(strings.TrimSpace(value)); err != nil {
			return fmt.Errorf("%.60s: %w", key, err)
		}
	}
	return nil
}

// truth reads what torch takes for a truth value (RendezvousParameters.get_as_bool).
func truth(text string) (bool, error) {
	switch strings.ToLower(text) {
	case "1", "true", "t", "yes", "y":
		return true, nil
	case "0", "false", "f", "no", "n":
		return false, nil
	}
	return false, errors.New("is_host is 1 or 0")
}

func (l *Torchrun) processes(v []string) error {
	if n, err := strconv.Atoi(v[0]); err == nil && n < 1 || err != nil && !slices.Contains([]string{"auto", "cpu", "gpu"}, v[0]) {
		return errors.New("write a number, or auto, cpu or gpu")
	}
	l.wanted = v[0]
	return nil
}

func (l *Torchrun) nodeRank(v []string) error {
	n, err := strconv.ParseUint(v[0], 10, 16)
	if err != nil {
		return errors.New("that is no node's number; they begin at 0")
	}
	l.rank = int(n)
	return nil
}

func (l *Torchrun) backend(v []string) error {
	switch v[0] {
	case "static", "c10d":
		l.c10d = v[0] == "c10d"
		return nil
	}
	return errors.New("nodes are not found by that service here: number them with --node-rank, and say --master-addr")
}

func (l *Torchrun) restarts(v []string) error {
	n, err := strconv.ParseUint(v[0], 10, 31)
	if err != nil || n > job.MaxRestarts {
		return fmt.Errorf("that is no whole number from 0 to %d", job.MaxRestarts)
	}
	l.MaxRestarts = int(n)
	return nil
}

func (l *Torchrun) filter(v []string) error {
	for text := range strings.SplitSeq(v[0], ",") {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return errors.New("write local ranks with commas between")
		}
		l.Shown = append(l.Shown, int(n))
	}
	return nil
}

func (l *Torchrun) shutdown(v []string) (err error) {
	l.Grace, err = Seconds(v[0])
	return err
}
