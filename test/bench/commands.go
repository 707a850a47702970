package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"time"
)

// commands measures what a command costs that needs no host, in turn with Hydra's where it is installed, and with another mpiup (-against).
// CPU time, of the command and all that it waited for, is the firm figure on a machine with other work.
func (b *bench) commands(ctx context.Context) error {
	type contender struct {
		name      string
		argv      []string
		wall, cpu []float64 // ms
	}
	run := []string{"run", "-n", "4", "/bin/true"}
	list := []*contender{{name: "version", argv: []string{b.mpiup, "version"}}, {name: "true", argv: append([]string{b.mpiup}, run...)}}
	if b.against != "" {
		list = append(list, &contender{name: "the other's true", argv: append([]string{b.against}, run...)})
	}
	if hydra, err := exec.LookPath("mpirun.mpich"); err == nil {
		list = append(list, &contender{name: "Hydra's true", argv: []string{hydra, "-n", "4", "/bin/true"}})
	}
	rounds := max(21, 3*b.rounds)
	for round := range rounds + 1 {
		for _, c := range list {
			cmd := exec.CommandContext(ctx, c.argv[0], c.argv[1:]...)
			begun := time.Now()
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%q: %w\n%s", c.argv, err, out)
			}
			if round > 0 {
				c.wall = append(c.wall, ms(time.Since(begun)))
				c.cpu = append(c.cpu, ms(cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime()))
			}
		}
	}
	info, err := os.Stat(b.mpiup)
	if err != nil {
		return err
	}
	b.report("size of the binary", "MB", []float64{float64(info.Size()) / 1e6}, 16)
	for _, c := range list[1:] {
		b.report("wall time, 1x4 without hosts: "+c.name, "ms", c.wall, 0)
	}
	b.report("mpiup version, CPU time", "ms", list[0].cpu, 3)
	for _, c := range list[1:] {
		b.report("CPU time, 1x4 without hosts: "+c.name, "ms", c.cpu, 0)
	}
	if i := slices.IndexFunc(list, func(c *contender) bool { return c.name == "Hydra's true" }); i >= 0 {
		b.report("1x4 true without hosts, wall, ratio to local Hydra", "", []float64{median(list[1].wall) / median(list[i].wall)}, 1)
	}
	return nil
}
