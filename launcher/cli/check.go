package cli

import (
	"fmt"

	"github.com/mpiup/mpiup/gpu"
)

// Check finds what the flags contradict each other in, and settles what two flags can say:
// afterwards MapBy is slot or node, PerNode has the number of ppr:N:node, and Output is tag if
// --tag-output was given.
func (f *RunFlags) Check() error {
	if err := f.HostFlags.Check(); err != nil {
		return err
	}
	if err := f.LeaseFlags.Check(); err != nil {
		return err
	}
	if _, err := gpu.ParseWish(f.GPUsPerRank, f.GPUBind); err != nil {
		return err
	}
	by, perNode, err := parseMapBy(f.MapBy)
	if err != nil {
		return fmt.Errorf("--map-by: %w", err)
	}
	if perNode > 0 && f.PerNode > 0 && perNode != f.PerNode {
		return fmt.Errorf("-N %d and --map-by %s ask for different numbers of ranks on a host; give one", f.PerNode, f.MapBy)
	}
	f.MapBy = by
	if perNode > 0 {
		f.PerNode = perNode
	}
	if f.TagOutput {
		if f.Output == "json" {
			return fmt.Errorf("--tag-output and --output json are two forms of output; give one (json names the rank too)")
		}
		f.Output = "tag"
	}
	return nil
}
