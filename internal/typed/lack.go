package typed

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/visible"
)

// Lack is what hosts have otherwise than a launcher.
type Lack struct {
	Since        bool // the variables may have been set for this command; else they are older
	Names, Hosts []string
	Who          string // whose environment it is: "ranks"
}

// Line says so, without values, and how to hand them over. It has 200 columns at most, and then not all names, unless all are asked for.
func (l Lack) Line(all bool) string {
	const hosts, names, flags = 36, 44, 44 // columns
	named, whole := visible.Short(l.Names, names), strings.Join(l.Names, ", ")
	if all {
		named = whole
	} else if named != whole {
		named += " (-v names all)"
	}
	with := "-x " + strings.Join(l.Names, " -x ")
	if len(with) > flags || slices.ContainsFunc(l.Names, func(n string) bool { return !Plain(n) }) {
		with = "-x NAME" // people paste the flags into a shell
	}
	text := "set here, not so on %s: %s; %s keep theirs without %s"
	if l.Since {
		text = "set in this session, not so on %s: %s; %s get them with %s"
	}
	return fmt.Sprintf(text, visible.Short(l.Hosts, hosts), named, l.Who, with)
}
