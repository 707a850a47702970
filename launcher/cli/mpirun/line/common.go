package line

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Common are options that both families have with one meaning.
func (p *Parser) Common() []Row {
	return []Row{
		{Names: "n np", Args: 1, Level: Done, Local: true, Means: RanksMean, Set: p.Ranks},
		{Names: "wdir wd", Args: 1, Level: Done, Local: true, Means: "working directory; a missing one is an error",
			Set: Text(&p.Ctx.Wdir, "a directory has a name")},
		{Names: "version V", Level: Done, Means: "says which launcher is imitated", Set: True(&p.Line.Version)},
		{Names: "help h", Level: Done, Means: "lists the options", Set: True(&p.Line.Help)},
		{Names: "v verbose", Level: Done, Means: "says what mpiup does, whose command line this is, and which options have no effect",
			Set: p.On(func(l *Line) { l.Verbose++ })},
		{Names: "dry-run", Level: Done, Means: "prints the plan of ranks and hosts and starts nothing (mpiup's own)",
			Set: True(&p.Line.DryRun)},
		{Names: "report-bindings", Level: Done, Means: "shows each rank's CPUs when it has started, as Open MPI does", Set: True(&p.Line.Bindings)},
	}
}

// RanksMean says what -n means.
const RanksMean = "ranks of the program; without it, or with 0, the launcher's default ([mpirun.md](mpirun.md))"

// Ranks is how many ranks a program has. With 0 it is as if the option was not given: so it is in Open MPI 4.1 and 5
// and in MPICH's Hydra.
func (p *Parser) Ranks(v []string) (err error) {
	p.Ctx.N, err = Number(v[0], 0, MaxRanks)
	return err
}

// MaxRanks bounds every number of ranks.
const MaxRanks = 1 << 20

const maxSeconds = 1 << 30 // 34 years

// MaxVar is the longest variable a program can be started with (MAX_ARG_STRLEN of Linux).
const MaxVar = 32*4096 - 1

// Number reads a number from least to most.
func Number(text string, least, most int) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		return 0, fmt.Errorf("%.40q is no number from %d to %d", text, least, most)
	}
	return n, nil
}

// Count is an option whose value is a number from 1 to most.
func Count(to *int, most int) func([]string) error {
	return func(v []string) (err error) {
		*to, err = Number(v[0], 1, most)
		return err
	}
}

// Text is an option whose value is a text. An empty value is refused with the sentence empty.
func Text(to *string, empty string) func([]string) error {
	return func(v []string) error {
		if v[0] == "" {
			return errors.New(empty)
		}
		*to = v[0]
		return nil
	}
}

// True is an option that is given or not.
func True(to *bool) func([]string) error {
	return func([]string) error { *to = true; return nil }
}

// PreloadFiles has a list of files copied to the hosts.
func (p *Parser) PreloadFiles(v []string) error {
	if strings.Trim(v[0], ",") == "" {
		return errors.New("a file has a name")
	}
	p.Ctx.PreloadFiles = append(p.Ctx.PreloadFiles, v[0])
	return nil
}

// File is a file with the hosts.
func (p *Parser) File(v []string) error {
	switch {
	case v[0] == "":
		return errors.New("a file has a name")
	case p.Hostfile != "" && p.Hostfile != v[0]:
		return fmt.Errorf("the hosts are in %s already; give one file", p.Hostfile)
	}
	p.Hostfile = v[0]
	return nil
}

// List is hosts for all programs.
func (p *Parser) List(v []string) error { return addList(&p.Listed, v[0]) }

// OwnList is hosts for one program.
func (p *Parser) OwnList(v []string) error { return addList(&p.Ctx.Listed, v[0]) }

func addList(to *[]string, list string) error {
	if strings.TrimSpace(list) == "" {
		return errors.New("the list is empty")
	}
	*to = append(*to, list)
	return nil
}

// Timeout is how many seconds the job may take; 0 is without end.
func (p *Parser) Timeout(v []string) error {
	n, err := Number(v[0], 0, maxSeconds)
	p.Line.Timeout = time.Duration(n) * time.Second
	return err
}

// Stdin is who reads standard input.
func (p *Parser) Stdin(v []string) error {
	switch v[0] {
	case "all", "none":
	default:
		if _, err := Number(v[0], 0, MaxRanks); err != nil {
			return fmt.Errorf("%.40q is neither a rank nor all or none", v[0])
		}
	}
	p.Line.Stdin = v[0]
	return nil
}

// Fits says whether a program can be started with a variable.
func Fits(kv string) error {
	if len(kv) <= MaxVar {
		return nil
	}
	name, _, _ := strings.Cut(kv, "=")
	return fmt.Errorf("variable %.60s has %d bytes, more than the %d that one can have", name, len(kv), MaxVar)
}

// Exported is what -x gives: NAME=value as it is, NAME and PREFIX* with the values of an environment; none where that has no such.
func Exported(def string, lookup func(name string) (string, bool), environ []string) (defs []string) {
	name, _, set := strings.Cut(def, "=")
	if set {
		return []string{def}
	}
	if prefix, pattern := strings.CutSuffix(name, "*"); pattern {
		for _, kv := range environ {
			if n, _, ok := strings.Cut(kv, "="); ok && n != "" && strings.HasPrefix(n, prefix) {
				defs = append(defs, kv)
			}
		}
	} else if value, ok := lookup(name); ok {
		defs = append(defs, name+"="+value)
	}
	return defs
}

// SearchPath is where hosts look for the program first.
func (p *Parser) SearchPath() func([]string) error {
	return Text(&p.Ctx.Path, "the list of directories is empty")
}

// TimeLimit is MPIEXEC_TIMEOUT, which both families know.
func (p *Parser) TimeLimit() error {
	return p.Variable("MPIEXEC_TIMEOUT", "timeout", p.Timeout)
}

// Variable is one that says what options say, with blanks between: it counts where none of these was given.
func (p *Parser) Variable(name, options string, set func([]string) error) error {
	v, _ := p.Out.Lookup(name)
	if strings.TrimSpace(v) == "" || slices.ContainsFunc(strings.Fields(options), func(o string) bool { return p.Given[o] }) {
		return nil
	}
	p.Given[options] = true
	if err := set([]string{v}); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// Without notes that something was accepted and has no effect.
func (p *Parser) Without(what string) { p.Line.Without = append(p.Line.Without, what) }

// As is an option that stands for another with a value.
func As(set func([]string) error, value string) func([]string) error {
	return func([]string) error { return set([]string{value}) }
}

// On is an option without a value.
func (p *Parser) On(set func(*Line)) func([]string) error {
	return func([]string) error { set(&p.Line); return nil }
}
