package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/gpu"
	"github.com/mpiup/mpiup/internal/frameworks"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher"
	"github.com/mpiup/mpiup/launcher/cli"
	"github.com/mpiup/mpiup/launcher/cli/mpirun"
	"github.com/mpiup/mpiup/launcher/cli/training"
	"github.com/mpiup/mpiup/launcher/iof"
)

// asTorchrun runs what a command line of PyTorch's launcher starts: the ranks of all nodes, or those of this pod. Errors
// are the user's, unless they bring a code.
func asTorchrun(p *process, args []string) error {
	dir, err := workingDir()
	if err != nil {
		return err
	}
	t, err := training.ParseTorchrun(args, p.lookup, func(word string) (int, error) { return ranksHere(p, word) })
	if err != nil {
		return err
	}
	if t.Read.Line.Help {
		_, err = io.WriteString(p.stdout, training.TorchrunHelp())
		return err
	}
	outside := p.outside(dir)
	l, err := mpirun.ParseProgram(t.Words, t.Program, outside)
	if err != nil {
		return err
	}
	l.Without = append(t.Read.Line.Without, l.Without...)
	if told, err := outside.Operators(); t.Nodes == 1 && err == nil && len(told) > 1 {
		tell(p.stderr, "torchrun (mpiup):", fmt.Sprintf("all ranks run in this pod; --nnodes %d starts them on the job's %d hosts", len(told), len(told)))
	}
	launch := p.launch
	if t.Meets != nil {
		launch = (&podPart{process: p, line: &t}).run
	}
	defer func() {
		if t.Node == training.All && t.Nodes > 1 && (p.code == job.ExitHosts || p.code == job.ExitTLS) {
			tell(p.stderr, "torchrun (mpiup): or start each node's ranks there, with --node-rank and --master-addr, as torchrun does")
		}
	}()
	return startLine(p, "torchrun", &l, "torchrun says the same to it", dir, func(cfg *launcher.Config) {
		cfg.LocalBy = "--standalone"
		cfg.Said, cfg.Sizeless = true, false // of PET_NNODES the line is read with
		if t.Node == training.All && t.Least == t.Nodes {
			cfg.Size, cfg.SizeBy = t.Nodes, "--nnodes"
		}
		cfg.Frameworks |= frameworks.Torch | frameworks.Torchrun
		cfg.Pty = false // torchrun's ranks write where it does
		if t.Least < t.Nodes && t.Meets == nil {
			cfg.Elastic = job.Elastic{Min: t.Least * t.PerNode, Max: t.Nodes * t.PerNode, LastCall: cmp.Or(t.LastCall, cli.DefaultLastCall)}
		}
		if t.Join > 0 && t.Meets == nil {
			cfg.Wait, cfg.WaitBy, cfg.Insist = t.Join, "join_timeout", true
		}
		if t.MaxRestarts > 0 || t.Least < t.Nodes {
			cfg.StdinTarget = "none"
		}
		if t.Meets == nil { // else that is for the nodes together
			cfg.MaxRestarts = t.MaxRestarts
		}
		var usual []string
		if t.Node != training.All {
			cfg.Local, cfg.Nodes, cfg.Node = true, t.Nodes, t.Node
			usual = slices.DeleteFunc(slices.Clone(p.env), func(kv string) bool {
				return !strings.HasPrefix(kv, "OMP_NUM_THREADS=") && !strings.HasPrefix(kv, "TORCH_NCCL_ASYNC_ERROR_HANDLING=")
			})
		}
		for i := range cfg.Apps {
			cfg.Apps[i].Env = slices.Concat(training.Inherited(cfg.Apps[i].Env), usual, t.Env)
		}
		if cfg.Output.Mode == iof.Tag && t.Nodes == 1 { // as torchrun has it, where ranks have no other number
			cfg.Output.Mode, cfg.Output.Prepend = iof.Plain, "[default%r]:"
		}
		if len(t.Shown) > 0 {
			cfg.Output.Only = func(id int) bool { return slices.Contains(t.Shown, id%t.PerNode) }
		}
		if t.Grace > 0 {
			cfg.Grace = t.Grace
		}
	}, launch)
}

// ranksHere is how many ranks torchrun would start here for a word of --nproc-per-node.
func ranksHere(p *process, word string) (int, error) {
	inv, gpus := inventory(p, slog.New(slog.DiscardHandler))
	n := inv.GPUs
	if name := gpu.SetAlready(gpus.Vendor, func(name string) bool { _, ok := p.lookup(name); return ok }); name != "" {
		n = min(n, len(strings.FieldsFunc(p.getenv(name), func(r rune) bool { return r == ',' })))
	}
	switch {
	case word != "cpu" && n > 0:
		return n, nil
	case word == "gpu":
		return 0, errors.New("no GPU is here")
	}
	return inv.CPUs, nil
}
