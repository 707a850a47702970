package mpirun

import (
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// hydraVariable is a row of variables.tsv: variables that mpiexec of MPICH or of Intel MPI reads, and what becomes of them here.
type hydraVariable struct {
	launchers []string // "mpich", "intel"
	level     paramLevel
	names     []string
	means     string
}

// variableDone is of a variable that is an option by another name.
const variableDone paramLevel = "done"

//go:embed variables.tsv
var variablesText string

// hydraVariables are all rows.
var hydraVariables = sync.OnceValue(func() (rows []hydraVariable) {
	for _, cells := range tableRows(variablesText) {
		rows = append(rows, hydraVariable{
			launchers: strings.Fields(cells[0]),
			level:     paramLevel(cells[1]),
			names:     strings.Fields(cells[2]),
			means:     cells[3],
		})
	}
	return rows
})

// tableRows are the cells of a table's rows, without comments and the heading.
func tableRows(text string) (rows [][]string) {
	heading := true
	for one := range strings.Lines(text) {
		switch {
		case strings.HasPrefix(one, "#"):
		case heading:
			heading = false
		default:
			rows = append(rows, strings.Split(strings.TrimSuffix(one, "\n"), "\t"))
		}
	}
	return rows
}

// launcherVariables takes the variables of MPICH's and Intel MPI's launchers that are options by another name, and warns of those that
// are not done. An option on the command line comes before its variable.
func (p *hydraParser) launcherVariables() error {
	err := cmp.Or(
		p.Variable("HYDRA_BINDING", "bind-to", p.bindTo),
		p.Variable("HYDRA_PPN", "ppn rr", p.perHost),
		p.Variable("I_MPI_JOB_TIMEOUT", "timeout", p.Timeout),
		p.Variable("I_MPI_MPIEXEC_TIMEOUT", "timeout", p.Timeout),
		p.Variable("I_MPI_HYDRA_HOSTS_GROUP", "hosts host f hosts-group", p.List),
		p.Variable("HYDRA_DEBUG", "v debug", p.verbose),
		p.Variable("I_MPI_HYDRA_DEBUG", "v debug", p.verbose),
	)
	if err != nil {
		return err
	}
	if p.bind != "" { // without a binding Hydra does not look at it
		if err := p.Variable("HYDRA_MAPPING", "map-by", p.mapBy); err != nil {
			return err
		}
	}
	p.tellOfVariables()
	return nil
}

// verbose is HYDRA_DEBUG, a switch.
func (p *hydraParser) verbose(v []string) error {
	if truth(v[0]) {
		p.Line.Verbose++
	}
	return nil
}

// tellOfVariables warns of variables that the real launcher would read and that are not done.
func (p *hydraParser) tellOfVariables() {
	for _, row := range hydraVariables() {
		if row.level != paramWarned && row.level != paramWarnedOff {
			continue
		}
		for _, name := range row.names {
			value, set := p.Out.Lookup(name)
			if set && value != "" && truth(value) == (row.level == paramWarned) {
				p.Warn("variable %s has no effect: %s", name, row.means)
			}
		}
	}
}

// configFiles are the files with options that the real launcher reads by itself. MPICH's takes the first that there is, Intel's all:
//
//	MPICH   HYDRA_CONFIG_FILE ▸ ~/.mpiexec.hydra.conf ▸ ETC/mpiexec.hydra.conf
//	Intel   ./mpiexec.conf, ~/.mpiexec.conf, $I_MPI_ROOT/intel64/etc/mpiexec.conf
//
// Tried with MPICH 4.0.2 and 5.0.2 and Intel MPI 2021.18.
func (p *hydraParser) configFiles() (places []string, all bool) {
	root, intel := p.Out.Lookup("I_MPI_ROOT")
	home, _ := p.Out.Lookup("HOME")
	add := func(below, name string) {
		if path.IsAbs(below) {
			places = append(places, path.Join(below, name))
		}
	}
	if intel {
		add(p.Out.Dir, "mpiexec.conf")
		add(home, ".mpiexec.conf")
		add(root, "intel64/etc/mpiexec.conf")
		return places, true
	}
	if named, _ := p.Out.Lookup("HYDRA_CONFIG_FILE"); named != "" {
		places = append(places, p.Absolute(named))
	}
	add(home, ".mpiexec.hydra.conf")
	if p.Out.Prefix != nil {
		add(p.Out.Prefix(line.Hydra), "etc/mpiexec.hydra.conf")
	}
	return places, false
}

// optionsOfFiles takes the options of the files that the real launcher reads by itself, as far as the command line does not say the same. -configfile
// stands for all of them.
func (p *hydraParser) optionsOfFiles() error {
	if p.Out.FoundFile == nil || p.Given["configfile"] {
		return nil
	}
	places, all := p.configFiles()
	for len(places) > 0 {
		name, text := p.FirstFound("mpiexec", places)
		if name == "" {
			return nil
		}
		if err := p.optionsOfFile(text); err != nil {
			return &line.ElsewhereError{Err: fmt.Errorf("%s, which Hydra's mpiexec reads: %w", name, err)}
		}
		if !all {
			return nil
		}
		places = places[slices.Index(places, name)+1:]
	}
	return nil
}

// alike are options of which one on the command line keeps out the others of a file.
var alike = [][]string{
	{"hosts", "host", "f", "hosts-group"}, {"ppn", "rr"}, {"genvnone", "genvall", "genvlist", "genvexcl"}, {"envnone", "envall", "envlist", "envexcl"},
	{"l", "prepend-pattern"}, {"gtool", "gtoolfile"},
}

// optionsOfFile takes the options of one file. Where the command line names no program, it is read as -configfile would be.
func (p *hydraParser) optionsOfFile(text string) error {
	words := configured(text)
	last := len(p.Line.Contexts) - 1
	if last < 0 {
		return p.Programs(words)
	}
	words = slices.DeleteFunc(words, func(word string) bool { return word == ":" }) // the lines' ends
	given := map[string]bool{}
	for name := range p.Given {
		given[name] = true
		for _, group := range alike {
			if slices.Contains(group, name) {
				for _, other := range group {
					given[other] = true
				}
			}
		}
	}
	delete(given, "genv") // each names a variable of its own
	delete(given, "env")
	p.Ctx = p.Line.Contexts[last]
	ofAll, ofOne := p.ForAll, p.Ctx.Env
	p.ForAll, p.Ctx.Env = nil, nil
	program, err := p.MoreOptions(words, given)
	if err == nil && len(program) > 0 {
		err = errors.New("names a program, and so does the command line; name it in one place")
	}
	p.ForAll, p.Ctx.Env = append(p.ForAll, ofAll...), append(p.Ctx.Env, ofOne...) // of which the last counts
	p.Line.Contexts[last] = p.Ctx
	return err
}
