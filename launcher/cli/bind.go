package cli

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/layout"
)

// registerBinding adds flags that say which CPUs ranks get, in Open MPI's words.
func (f *RunFlags) registerBinding(fs *pflag.FlagSet) {
	valueVar(fs, &f.Policy.Binding.Rank, "rank-by", "", layout.ParseRankBy,
		"the `ORDER` of ranks' numbers: slot, node, fill or an object, with :span over those of all hosts (default: as mapped)")
	valueVar(fs, &f.Policy.Binding.Bind, "bind-to", "", func(s string) (layout.Target, error) { return layout.ParseBindTo(s, layout.Target{}) },
		"bind each rank to an `OBJECT`: none, hwthread, core, l1cache, l2cache, l3cache, numa, socket or cpu-list[:ordered]; with :overload-allowed more ranks than CPUs (default: numa where CPUs are the pod's own, else none)")
	valueVar(fs, &f.Policy.Binding.CPUs, "cpu-set", "", layout.ParseCPUs,
		"ranks get only these CPUs of each host: `LIST` of cores (0-3,8), of a socket's cores (1:0-3), or of the kernel's CPUs (p0-3) (default: all)")
	valueVar(fs, &f.Rankfile, "rankfile", "", text("name a file"), "`FILE` with host and CPUs of each rank, a line as \"rank 0=w0 slot=0-3\" (default: none)")
	fs.BoolVar(&f.ReportBindings, "report-bindings", false, "show each rank's CPUs when it has started")
	fs.BoolVar(&f.DisplayMap, "display-map", false, "show which rank runs where, and on which CPUs")
}

// settleBinding finds what contradicts each other, and settles what two flags can say, and what concerns hosts.
func (f *RunFlags) settleBinding() error {
	b, m := &f.Policy.Binding, &f.Policy.Binding.Map
	if b.HWThreads = m.HWThreads; b.CPUs == nil {
		b.CPUs = m.CPUs
	}
	b.Ordered = m.Ordered
	f.Rankfile = cmp.Or(f.Rankfile, m.File)
	switch {
	case m.Policy == "seq":
		return errors.New("--map-by: seq is mpirun's; write --rankfile, or hosts with their slots, --host a:2,b:2")
	case m.NoLocal:
		return errors.New("--map-by: nolocal is mpirun's; leave the host out")
	case b.Bind.List && b.CPUs == nil, m.Ordered && b.CPUs == nil:
		return errors.New("--bind-to cpu-list needs --cpu-set with the CPUs")
	case m.Policy == "rankfile" && f.Rankfile == "":
		return errors.New("--map-by rankfile needs --rankfile FILE")
	case f.Rankfile != "" && (m.Object != layout.None || f.Policy.PerNode > 0 || b.CPUs != nil || b.Rank != layout.Ranking{} || b.Bind != layout.Target{}):
		return errors.New("--rankfile says where each rank goes, and other flags say it too; leave them out")
	}
	if m.Slots == layout.Allowed {
		f.Policy.Oversubscribe = true
	}
	switch {
	case m.Policy == "ppr" && m.Object == layout.None:
		if f.Policy.PerNode > 0 && f.Policy.PerNode != m.N {
			return fmt.Errorf("-N %d and --map-by ppr:%d:node ask for different numbers of ranks on a host; give one", f.Policy.PerNode, m.N)
		}
		f.Policy.PerNode = m.N
	case m.Policy == "ppr" && f.Policy.PerNode > 0:
		return fmt.Errorf("-N %d and --map-by ppr:%d:%s ask for different numbers of ranks on a host; give one", f.Policy.PerNode, m.N, m.Object)
	}
	return nil
}

// maxRankfile is how long a rankfile may be, in bytes.
const maxRankfile = 64 << 20

// ReadRankfile reads a rankfile. Errors name it.
func ReadRankfile(path string) ([]layout.Line, error) {
	text, err := bounded.File(path, maxRankfile)
	if err != nil {
		return nil, fmt.Errorf("rankfile: %w", err)
	}
	lines, err := layout.ParseRankfile(string(text))
	if err != nil {
		return nil, fmt.Errorf("rankfile %s: %w", path, err)
	}
	return lines, nil
}
