package mpirun

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/mpiup/mpiup/launcher/cli/mpirun/line"
)

// paramLevel is what becomes of a parameter of Open MPI's launcher that is no option by another name.
type paramLevel string

const (
	paramWarned    paramLevel = "warned"          // a line says that it is not done
	paramWarnedOff paramLevel = "warned if false" // a line says so where it is switched off
	paramRefused   paramLevel = "refused"         // an error: it says where or how many ranks run
	paramNoEffect  paramLevel = "no effect"       // said with -v
	paramOfRanks   paramLevel = "of ranks"        // it goes to the ranks, whose library reads it
)

// otherParam is a row of params.tsv.
type otherParam struct {
	versions []string // of Open MPI: "4", "5"
	level    paramLevel
	patterns []string // names; "*" at the end of one is any end
	means    string
}

//go:embed params.tsv
var paramsText string

// otherParams are all rows, in the order of the file. The first that has a name counts.
var otherParams = sync.OnceValue(func() (rows []otherParam) {
	for _, cells := range tableRows(paramsText) {
		rows = append(rows, otherParam{
			versions: strings.Fields(cells[0]),
			level:    paramLevel(cells[1]),
			patterns: strings.Fields(cells[2]),
			means:    cells[3],
		})
	}
	return rows
})

// findOtherParam is the row of a parameter for one version of Open MPI; nil: there is none.
func findOtherParam(name, version string) *otherParam {
	rows := otherParams()
	for i := range rows {
		row := &rows[i]
		if slices.Contains(row.versions, version) && slices.ContainsFunc(row.patterns, nameMatches(name)) {
			return row
		}
	}
	return nil
}

// nameMatches tells the patterns that a name matches.
func nameMatches(name string) func(pattern string) bool {
	return func(pattern string) bool {
		beginning, open := strings.CutSuffix(pattern, "*")
		return pattern == name || open && strings.HasPrefix(name, beginning)
	}
}

// givenParam is a parameter as somebody set it.
type givenParam struct {
	name, value string
	from        string // where, for messages: a variable, an option, or a file with its line
}

// noteParam remembers a parameter that may have to be spoken of once the version of Open MPI is known. One that has no
// effect with any version is noted as such.
func (p *openMPIParser) noteParam(given givenParam) {
	four, five := findOtherParam(given.name, "4"), findOtherParam(given.name, "5")
	if spokenOf(four) || spokenOf(five) {
		p.noted = append(p.noted, given)
		return
	}
	if ofLauncher(given.name) {
		p.Without("parameter " + given.name)
	}
}

// spokenOf says that a parameter with this row is not passed over in silence.
func spokenOf(row *otherParam) bool {
	return row != nil && row.level != paramNoEffect && row.level != paramOfRanks
}

// tellOfParams warns of parameters that the real launcher would read and that are not done, and refuses those that say where or how many
// ranks run.
func (p *openMPIParser) tellOfParams() error {
	told := map[string]bool{}
	for _, given := range p.noted {
		row := p.rowOfVersion(given.name)
		off := !truth(given.value)
		switch {
		case told[given.name]:
			continue
		case row == nil, row.level == paramNoEffect, row.level == paramOfRanks:
			p.Without("parameter " + given.name)
		case row.level == paramWarnedOff && !off, row.level != paramWarnedOff && off, row.level == paramRefused && given.value == "1":
			// The value is the default: nothing was asked for.
		case row.level == paramRefused:
			err := fmt.Errorf("%s: parameter %s is not done: %s", given.from, given.name, row.means)
			return &line.ElsewhereError{Err: err}
		default:
			p.Warn("%s: parameter %s has no effect: %s", given.from, given.name, row.means)
		}
		told[given.name] = true
	}
	return nil
}

// rowOfVersion is a parameter's row for the version of Open MPI whose line this is, or, where that is not known, of either.
func (p *openMPIParser) rowOfVersion(name string) *otherParam {
	five, known := p.isFive()
	four, other := findOtherParam(name, "4"), findOtherParam(name, "5")
	if five {
		four, other = other, four
	}
	if four == nil && !known {
		return other
	}
	return four
}

// isFive says whether the line is read by the rules of Open MPI 5, and whether anything says so.
func (p *openMPIParser) isFive() (five, known bool) {
	if p.Out.Five == nil {
		return false, false
	}
	return p.Out.Five(&p.Line)
}
