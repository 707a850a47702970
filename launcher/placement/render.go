package placement

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/secret"
	"github.com/mpiup/mpiup/internal/visible"
)

// Render is the plan as --dry-run and the map of ranks to hosts print it, ending in a newline:
//
//	16 ranks on 2 hosts: ./train --epochs 3
//	w0  ranks 0-7   (8 of 8 slots)
//	w1  ranks 8-15  (8 of 8 slots)
//
// A job of several programs has a line for each, with its ranks. Ranks dealt out in equal
// steps are written "0-14 by 2".
func Render(plan *job.Plan, apps []job.App) string {
	onHost := make([]idset.Set, len(plan.Hosts))
	ofApp := make([]idset.Set, len(apps))
	for _, pl := range plan.Placements {
		onHost[pl.Host].Add(int(pl.Rank))
		ofApp[pl.App].Add(int(pl.Rank))
	}
	var b strings.Builder
	b.WriteString(size(plan))
	if len(apps) == 1 {
		fmt.Fprintf(&b, ": %s", command(apps[0].Argv))
	}
	b.WriteByte('\n')
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	if len(apps) > 1 {
		for i, a := range apps {
			fmt.Fprintf(table, "program %d\t%s\t%s\n", i, ranks(ofApp[i]), command(a.Argv))
		}
		table.Flush()
	}
	for h, host := range plan.Hosts {
		fmt.Fprintf(table, "%s\t%s\t(%d of %s)\n", host.Name, ranks(onHost[h]), onHost[h].Len(), visible.Count(host.Slots, "slot"))
	}
	table.Flush()
	renderBindings(&b, plan)
	return b.String()
}

// size is "16 ranks on 2 hosts".
func size(plan *job.Plan) string {
	return visible.Count(len(plan.Placements), "rank") + " on " + visible.Count(len(plan.Hosts), "host")
}

// renderBindings adds a line for each rank that is bound, with the kernel's numbers of its CPUs and Open
// MPI's picture of them:
//
//	rank 0  w0  CPUs 0-1  [BB/../../..][../../../..]
func renderBindings(b *strings.Builder, plan *job.Plan) {
	table := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, pl := range plan.Placements {
		if host := plan.Hosts[pl.Host]; host.Layout != nil && !pl.CPUs.Empty() {
			fmt.Fprintf(table, "rank %d\t%s\tCPUs %s\t%s\n", pl.Rank, host.Name, pl.CPUs, host.Layout.Draw(pl.CPUs))
		}
	}
	table.Flush()
}

// ranks is "rank 3", "ranks 0-7", "ranks 0-14 by 2" or the list.
func ranks(s idset.Set) string {
	ids := s.Slice()
	switch n := len(ids); {
	case n == 0:
		return "no ranks"
	case n == 1:
		return fmt.Sprintf("rank %d", ids[0])
	case n > 2 && ids[1]-ids[0] > 1 && evenly(ids):
		return fmt.Sprintf("ranks %d-%d by %d", ids[0], ids[n-1], ids[1]-ids[0])
	}
	return "ranks " + s.String()
}

func evenly(ids []int) bool {
	for i := 2; i < len(ids); i++ {
		if ids[i]-ids[i-1] != ids[1]-ids[0] {
			return false
		}
	}
	return true
}

// maxCommand is how much of a command line is shown, in bytes.
const maxCommand = 200

// command is argv as a shell would take it, without secrets, cut when long, and with nothing in it that moves
// a terminal's cursor.
func command(argv []string) string {
	var b strings.Builder
	for i, arg := range secret.MaskCommand(argv) {
		if i > 0 {
			b.WriteByte(' ')
		}
		if b.Len() > maxCommand {
			b.WriteString("...")
			break
		}
		b.WriteString(quote(arg))
	}
	return b.String()
}

func quote(arg string) string {
	if len(arg) > maxCommand {
		arg = arg[:maxCommand] + "..."
	}
	plain := arg != ""
	for _, r := range arg {
		if r < 0x20 || r == 0x7f || r == 0xfffd {
			return fmt.Sprintf("%+q", arg) // for reading only
		}
		if !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_=+./,:@%", r) {
			plain = false
		}
	}
	if plain {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}
