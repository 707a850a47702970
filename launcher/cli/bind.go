package cli

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/pflag"

	"github.com/mpiup/mpiup/internal/binding"
	"github.com/mpiup/mpiup/internal/layout"
)

// BindFlags say which CPUs ranks get, in Open MPI's words.
type BindFlags struct {
	RankBy   string // "": not given
	BindTo   string // "": not given
	CPUSet   string // "": not given
	Rankfile string // "": not given

	ReportBindings bool
	DisplayMap     bool

	// Binding is, after RunFlags.Check, all that --map-by and these said, without the rankfile.
	Binding binding.Request
}

func (f *BindFlags) register(fs *pflag.FlagSet) {
	valueVar(fs, &f.RankBy, "rank-by", "", func(s string) error { _, err := binding.ParseRankBy(s); return err },
		"the `ORDER` of ranks' numbers: slot, node, fill or an object, with :span over those of all hosts (default: as mapped)")
	valueVar(fs, &f.BindTo, "bind-to", "", func(s string) error { _, err := binding.ParseBindTo(s, binding.Target{}); return err },
		"bind each rank to an `OBJECT`: none, hwthread, core, l1cache, l2cache, l3cache, numa, socket or cpu-list[:ordered]; with :overload-allowed more ranks than CPUs (default: numa where CPUs are the pod's own, else none)")
	valueVar(fs, &f.CPUSet, "cpu-set", "", func(s string) error { _, err := binding.ParseCPUs(s); return err },
		"ranks get only these CPUs of each host: `LIST` of cores (0-3,8), of a socket's cores (1:0-3), or of the kernel's CPUs (p0-3) (default: all)")
	valueVar(fs, &f.Rankfile, "rankfile", "", notEmpty("a file"), "`FILE` with host and CPUs of each rank, a line as \"rank 0=w0 slot=0-3\" (default: none)")
	fs.BoolVar(&f.ReportBindings, "report-bindings", false, "show each rank's CPUs when it has started")
	fs.BoolVar(&f.DisplayMap, "display-map", false, "show which rank runs where, and on which CPUs")
}

// settleBinding reads --map-by and the flags here into Binding, and leaves MapBy slot or node.
func (f *RunFlags) settleBinding() error {
	var m binding.Mapping
	var err error
	if f.MapBy != "" {
		if m, err = binding.ParseMapBy(f.MapBy); err != nil {
			return fmt.Errorf("--map-by: %w", err)
		}
	}
	b := &f.Binding
	b.Map, b.HWThreads = m, m.HWThreads
	b.Rank, b.Bind, b.CPUs = binding.Ranking{}, binding.Target{}, nil
	if f.RankBy != "" {
		if b.Rank, err = binding.ParseRankBy(f.RankBy); err != nil {
			return fmt.Errorf("--rank-by: %w", err)
		}
	}
	if f.BindTo != "" {
		if b.Bind, err = binding.ParseBindTo(f.BindTo, binding.Target{}); err != nil {
			return fmt.Errorf("--bind-to: %w", err)
		}
	}
	list := f.CPUSet
	if list == "" {
		list = m.CPUs
	}
	if list != "" {
		if b.CPUs, err = binding.ParseCPUs(list); err != nil {
			return fmt.Errorf("--cpu-set: %w", err)
		}
		b.Ordered = m.Ordered
	}
	if f.Rankfile == "" {
		f.Rankfile = m.File
	}
	return f.checkBinding()
}

// checkBinding finds what contradicts each other, and settles what concerns hosts.
func (f *RunFlags) checkBinding() error {
	m := &f.Binding.Map
	switch {
	case m.Policy == "seq":
		return errors.New("--map-by: seq is mpirun's; write --rankfile, or hosts with their slots, --host a:2,b:2")
	case m.NoLocal:
		return errors.New("--map-by: nolocal is mpirun's; leave the host out")
	case f.Binding.Bind.List && f.Binding.CPUs == nil, m.Ordered && f.Binding.CPUs == nil:
		return errors.New("--bind-to cpu-list needs --cpu-set with the CPUs")
	case m.Policy == "rankfile" && f.Rankfile == "":
		return errors.New("--map-by rankfile needs --rankfile FILE")
	case f.Rankfile != "" && (m.Object != layout.None || f.PerNode > 0 || f.Binding.CPUs != nil || f.RankBy != "" || f.BindTo != ""):
		return errors.New("--rankfile says where each rank goes, and other flags say it too; leave them out")
	}
	if m.Slots == binding.Allowed {
		f.Oversubscribe = true
	}
	f.MapBy = "slot"
	switch {
	case m.Policy == "node":
		f.MapBy = "node"
	case m.Policy == "ppr" && m.Object == layout.None:
		if f.PerNode > 0 && f.PerNode != m.N {
			return fmt.Errorf("-N %d and --map-by ppr:%d:node ask for different numbers of ranks on a host; give one", f.PerNode, m.N)
		}
		f.PerNode = m.N
	case m.Policy == "ppr" && f.PerNode > 0:
		return fmt.Errorf("-N %d and --map-by ppr:%d:%s ask for different numbers of ranks on a host; give one", f.PerNode, m.N, m.Object)
	}
	return nil
}

// maxRankfile is how long a rankfile may be, in bytes.
const maxRankfile = 64 << 20

// ReadRankfile reads a rankfile. Errors name it.
func ReadRankfile(path string) ([]binding.Line, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("rankfile: %w", err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxRankfile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("rankfile: %w", err)
	case len(text) > maxRankfile:
		return nil, fmt.Errorf("rankfile %s: longer than %d bytes", path, maxRankfile)
	}
	lines, err := binding.ParseRankfile(string(text))
	if err != nil {
		return nil, fmt.Errorf("rankfile %s: %w", path, err)
	}
	return lines, nil
}
