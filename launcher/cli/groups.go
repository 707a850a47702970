package cli

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// group is a heading of the help that flags stand under.
type group string

// The groups, in the order of the help. Flags of none come first of all, as "Flags".
const (
	commonFlags   group = "Common flags"
	programFlags  group = "The program"
	placingFlags  group = "Where ranks run"
	bindingFlags  group = "CPUs of ranks"
	hostFlags     group = "Hosts"
	servingFlags  group = "This pod"
	identityFlags group = "Who trusts whom"
	restartFlags  group = "When ranks fail"
	timeFlags     group = "Times"
	outputFlags   group = "Output and input"
	libraryFlags  group = "MPI libraries and frameworks"
	networkFlags  group = "Networks"
	gpuFlags      group = "GPUs"
	planFlags     group = "Looking before starting"
	otherFlags    group = "Others"
)

var groups = []group{commonFlags, programFlags, placingFlags, bindingFlags, hostFlags, servingFlags, identityFlags, restartFlags, timeFlags,
	outputFlags, libraryFlags, networkFlags, gpuFlags, planFlags, otherFlags}

// inGroup is the annotation of a flag with its group.
const inGroup = "mpiup_group"

// in puts the flags that were registered since the last call, which have no group yet, into one.
func (g group) in(fs *pflag.FlagSet) {
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Annotations[inGroup] == nil {
			g.take(f)
		}
	})
}

// of puts certain flags into the group, whatever group they had.
func (g group) of(fs *pflag.FlagSet, names ...string) {
	for _, n := range names {
		if f := fs.Lookup(n); f != nil {
			g.take(f)
		}
	}
}

func (g group) take(f *pflag.Flag) {
	if f.Annotations == nil {
		f.Annotations = map[string][]string{}
	}
	f.Annotations[inGroup] = []string{string(g)}
}

// rare are flags that most people never need: help shows them with --all.
var rare = strings.Fields("launcher-timeout node-timeout last-call no-topology-hint no-transport-hints spawn-hostfiles alone-ok termination-log expand nccl pty worker-logs " +
	"rank-by rankfile cpu-set spares max-np watch-window")

// Rare are the flags of fs that are rarely used.
func Rare(fs *pflag.FlagSet) (names []string) {
	return slices.DeleteFunc(slices.Clone(rare), func(name string) bool { return fs.Lookup(name) == nil })
}

// Main are the flags that most people need, at most so many: the common ones, where a command has such, else its first.
func Main(fs *pflag.FlagSet, most int) (list []*pflag.Flag) {
	var others []*pflag.Flag
	fs.VisitAll(func(f *pflag.Flag) {
		switch of := f.Annotations[inGroup]; {
		case f.Hidden || slices.Contains(rare, f.Name):
		case of != nil && group(of[0]) == commonFlags:
			list = append(list, f)
		case of == nil:
			others = append(others, f)
		}
	})
	if len(list) == 0 {
		list = others
	}
	return list[:min(len(list), most)]
}

// Usages is the flags as help shows them, by group, in lines of at most width characters; those that are rarely used where all are wanted.
func Usages(fs *pflag.FlagSet, width int, all bool) string {
	by := map[group]*pflag.FlagSet{}
	fs.VisitAll(func(f *pflag.Flag) {
		if !all && slices.Contains(rare, f.Name) {
			return
		}
		var g group
		if names := f.Annotations[inGroup]; names != nil {
			g = group(names[0])
		}
		if by[g] == nil {
			by[g] = pflag.NewFlagSet("", pflag.ContinueOnError)
			by[g].SortFlags = fs.SortFlags
		}
		by[g].AddFlag(f)
	})
	if own := by[""]; own != nil && by[commonFlags] != nil { // cobra's --help, which is added late
		own.VisitAll(by[commonFlags].AddFlag)
		delete(by, "")
	}
	var b strings.Builder
	for _, g := range slices.Concat([]group{""}, groups) {
		if by[g] == nil || !by[g].HasAvailableFlags() {
			continue
		}
		title := string(g)
		if g == "" {
			title = "Flags"
		}
		b.WriteString("\n" + title + ":\n" + by[g].FlagUsagesWrapped(width))
	}
	return b.String()
}

// ServingFlags puts the flags that fs has by now, of a pod that serves, under their heading.
func ServingFlags(fs *pflag.FlagSet) { servingFlags.in(fs) }
