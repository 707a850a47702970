package cli

import (
	"fmt"

	"github.com/mpiup/mpiup/gpu"
)

// Check finds what the flags contradict each other in, and settles what two flags can say:
// afterwards MapBy is slot or node, PerNode has the number of ppr:N:node, Binding what concerns CPUs,
// and Output is tag if --tag-output was given. It is called once.
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
	if err := f.settleBinding(); err != nil {
		return err
	}
	if f.TagOutput {
		if f.Output == "json" {
			return fmt.Errorf("--tag-output and --output json are two forms of output; give one (json names the rank too)")
		}
		f.Output = "tag"
	}
	return nil
}
