package bfrops

import (
	"fmt"
	"strings"
)

// Dialect is one version of the encoding. The zero value is not usable: see Find.
type Dialect struct {
	Name string // as clients name it in the handshake
	flex bool
	last Type // the highest type that its clients know; a higher one would spoil the message for them
}

// dialects are those that a client may choose among the PMIX_SERVER_URI* variables.
var dialects = []*Dialect{
	{Name: "v41", flex: true, last: ProcNamespace},
	{Name: "v4", flex: true, last: CompressedBytes},
	{Name: "v3", last: EnvarType},
	{Name: "v21", last: EnvarType},
}

// Canonical is the dialect that hosts use among themselves, in NON_DESC: most clients speak it,
// so that what a rank put goes to another one as it came.
func Canonical() *Dialect { return dialects[0] }

// Find returns the dialect that a client named. libpmix 4.0 says "v4" or "v40".
func Find(name string) (*Dialect, error) {
	if name == "v40" {
		name = "v4"
	}
	var known []string
	for _, d := range dialects {
		if d.Name == name {
			return d, nil
		}
		known = append(known, d.Name)
	}
	return nil, fmt.Errorf("the PMIx dialect %.20q is not known, only %s", name, strings.Join(known, ", "))
}

// Knows says whether a client of d can read values of type t.
func (d *Dialect) Knows(t Type) bool { return t <= d.last && rules[t].name != "" }

// Fixed says whether integers have their natural width, as in v3 and before.
func (d *Dialect) Fixed() bool { return !d.flex }
