package torchrun

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

// row is one option.
type row struct {
	names string // the usual one first, blanks between; "_" may stand for "-"
	flag  bool   // it has no value
	level line.Level
	means string // what it means here, or why it is refused and what to use
	set   func(l *Line, v string) error
}

// variable is the one that torchrun reads where the option is not given.
func (r row) variable() string {
	name, _, _ := strings.Cut(r.names, " ")
	return "PET_" + strings.ToUpper(strings.ReplaceAll(strings.TrimPrefix(name, "--"), "-", "_"))
}

// rows are all options of torch 2.15.
func rows() []row {
	text := func(field func(*Line) *string) func(*Line, string) error {
		return func(l *Line, v string) error { *field(l) = v; return nil }
	}
	flag := func(field func(*Line) *bool) func(*Line, string) error {
		return func(l *Line, _ string) error { *field(l) = true; return nil }
	}
	return []row{
		{"--nnodes", false, line.Done, "how many nodes; without it 1, this pod. A range (`1:4`): the ranks start again with the nodes there are, as by `mpiup run --min-np --max-np` ([restart.md](restart.md)); refused where each pod starts its own node's ranks", (*Line).nodes},
		{"--nproc-per-node", false, line.Done, "ranks of each node; `gpu`, `cpu` and `auto` where the line is for this pod", (*Line).processes},
		{"--node-rank", false, line.Done, "which of the nodes this pod is: its ranks are started, and no others", (*Line).nodeRank},
		{"--standalone", true, line.Done, "this pod alone; what is said of nodes does not count", flag(func(l *Line) *bool { return &l.standalone })},
		{"--master-addr", false, line.Done, "where node 0 is, whose rank 0 listens there", text(func(l *Line) *string { return &l.addr })},
		{"--master-port", false, line.Done, "the port there, without it 29500; a free one where the line is for all nodes, or for one alone", text(func(l *Line) *string { return &l.port })},
		{"--rdzv-endpoint", false, line.Done, "both, `HOST:PORT`: of node 0, with `c10d` too", text(func(l *Line) *string { return &l.endpoint })},
		{"--rdzv-backend", false, line.Done, "`static` or `c10d`, which mean the same here: nodes have numbers, and rank 0 itself listens. Others are refused", (*Line).backend},
		{"--rdzv-id", false, line.Done, "`TORCHELASTIC_RUN_ID` of the ranks", text(func(l *Line) *string { return &l.id })},
		{"--max-restarts", false, line.Done, "when a rank fails or a host is lost, all ranks are started again, so often at most, as by `mpiup run --max-restarts`; what nodes that come lead to does not count. No rank reads standard input then. Where each pod starts its own node's ranks, more than 0 is refused", (*Line).restarts},
		{"--role", false, line.Done, "`ROLE_NAME` of the ranks", text(func(l *Line) *string { return &l.role })},
		{"--module -m", true, line.Done, "the program is a Python module", flag(func(l *Line) *bool { return &l.module })},
		{"--no-python", true, line.Done, "the program is no Python script. Without it `python3`, or `PYTHON_EXEC`, runs it", flag(func(l *Line) *bool { return &l.noPython })},
		{"--log-dir", false, line.Done, "where the files of the next two go, as `DIR/rank.N/stdout` and `stderr`", text(func(l *Line) *string { return &l.dir })},
		{"--redirects -r", false, line.Done, "`3`: both streams of all ranks go to files, and not to the terminal", text(func(l *Line) *string { return &l.files })},
		{"--tee -t", false, line.Done, "`3`: they go to both, with `[defaultRANK]:` before each line; over several hosts with `[1,RANK]<stdout>:`", text(func(l *Line) *string { return &l.tee })},
		{"--local-ranks-filter", false, line.Done, "the local ranks whose output is shown, `0,1`", (*Line).filter},
		{"--shutdown-timeout", false, line.Done, "seconds between SIGTERM and SIGKILL", (*Line).shutdown},
		{"--rdzv-conf", false, line.Done, "`join_timeout` (how long all nodes are waited for, of a range the fewest; without it mpiup's own 5 minutes) and, of a range, `last_call_timeout` (then others, 30), in seconds; other settings have no effect: no server is waited for", (*Line).conf},
		{"--help -h", true, line.Done, "lists the options", flag(func(l *Line) *bool { return &l.Help })},
		{"--monitor-interval", false, line.NoEffect, "the end of a rank is noticed at once", nil},
		{"--start-method", false, line.NoEffect, "ranks are programs, not functions", nil},
		{"--event-log-handler", false, line.NoEffect, "`mpiup run --output json` and the agents' logs have such events", nil},
		{"--log-line-prefix-template", false, line.NoEffect, "lines of `--tee` begin as above", nil},
		{"--local-addr", false, line.NoEffect, "nothing but the ranks themselves listens", nil},
		{"--signals-to-handle", false, line.NoEffect, "INT, TERM, HUP, USR1 and USR2 are passed on", nil},
		{"--run-path", true, line.Refused, "each rank is a process of its own here; leave it out", nil},
		{"--numa-binding", false, line.Refused, "use mpiup run --bind-to numa", nil},
		{"--virtual-local-rank", true, line.Refused, "use mpiup run --gpus-per-rank 1", nil},
		{"--logs-specs", false, line.Refused, "it is a Python class; use --log-dir with --redirects 3 or --tee 3", nil},
		{"--duplicate-stdout-filters", false, line.Refused, "use grep on the files of --tee 3", nil},
		{"--duplicate-stderr-filters", false, line.Refused, "use grep on the files of --tee 3", nil},
		{"--print-completion", false, line.Refused, "--help lists the options", nil},
	}
}

func (l *Line) nodes(v string) error {
	least, most, ranged := strings.Cut(v, ":")
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
func (l *Line) conf(v string) error {
	for part := range strings.SplitSeq(v, ",") {
		key, value, _ := strings.Cut(part, "=")
		to := map[string]*time.Duration{"join_timeout": &l.Join, "last_call_timeout": &l.LastCall}[strings.TrimSpace(key)]
		if to == nil {
			l.Without = append(l.Without, "--rdzv-conf "+part)
			continue
		}
		n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 20)
		if err != nil || n == 0 {
			return fmt.Errorf("%.60s: that is no number of seconds", key)
		}
		*to = time.Duration(n) * time.Second
	}
	return nil
}

func (l *Line) processes(v string) error {
	if n, err := strconv.Atoi(v); err == nil && n < 1 || err != nil && !slices.Contains([]string{"auto", "cpu", "gpu"}, v) {
		return errors.New("write a number, or auto, cpu or gpu")
	}
	l.wanted = v
	return nil
}

func (l *Line) nodeRank(v string) error {
	n, err := strconv.ParseUint(v, 10, 16)
	if err != nil {
		return errors.New("that is no node's number; they begin at 0")
	}
	l.rank = int(n)
	return nil
}

func (l *Line) backend(v string) error {
	switch v {
	case "static", "c10d":
		l.c10d = v == "c10d"
		return nil
	}
	return errors.New("nodes are not found by that service here: number them with --node-rank, and say --master-addr")
}

func (l *Line) restarts(v string) error {
	n, err := strconv.ParseUint(v, 10, 31)
	if err != nil || n > job.MaxRestarts {
		return fmt.Errorf("that is no whole number from 0 to %d", job.MaxRestarts)
	}
	l.MaxRestarts = int(n)
	return nil
}

func (l *Line) filter(v string) error {
	for text := range strings.SplitSeq(v, ",") {
		n, err := strconv.ParseUint(text, 10, 16)
		if err != nil {
			return errors.New("write local ranks with commas between")
		}
		l.Shown = append(l.Shown, int(n))
	}
	return nil
}

func (l *Line) shutdown(v string) error {
	n, err := strconv.ParseUint(v, 10, 20)
	if err != nil || n == 0 {
		return errors.New("that is no number of seconds")
	}
	l.Grace = time.Duration(n) * time.Second
	return nil
}
