package cli

import "github.com/spf13/pflag"

// PlanFlags are those of mpiup run that say how many ranks each host gets, for commands that start none.
type PlanFlags struct {
	N             int // ranks; 0: one a slot
	PerNode       int // on every host; 0: by slots
	MapBy         string
	Oversubscribe bool
	GPUsPerRank   int // 0: not given
}

// Register adds the flags to fs.
func (f *PlanFlags) Register(fs *pflag.FlagSet) {
	valueVar(fs, &f.N, "np", "n", parseCount, "look for `N` ranks (default: one a slot)")
	valueVar(fs, &f.PerNode, "ppn", "N", parseCount, "look for `N` ranks on every host (default: by slots)")
	f.MapBy = "slot"
	valueVar(fs, &f.MapBy, "map-by", "", oneOf("slot", "node"), "the `ORDER` in which ranks are dealt out, slot or node")
	fs.BoolVar(&f.Oversubscribe, "oversubscribe", false, "allow more ranks than the slots a hostfile or host:N gives")
	valueVar(fs, &f.GPUsPerRank, "gpus-per-rank", "", parseCount, "look for ranks that each see `N` GPUs (default: all see all)")
}
