package line

import (
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/internal/visible"
)

// helpWidth is how wide the lines of help are.
const helpWidth = 100

// Options are a launcher's options as help shows them: those that are done, those without effect, said or not, and those that are refused and what to use.
func Options(rows []Row) string {
	var b strings.Builder
	for _, section := range []struct {
		Level
		title string
	}{{Done, "Options"}, {NoEffect, "Accepted, without effect"}, {Warned, "Accepted with a warning, without effect"}, {Refused, "Refused"}} {
		fmt.Fprintf(&b, "\n%s:\n", section.title)
		for _, r := range rows {
			if r.Level == section.Level {
				describe(&b, r)
			}
		}
	}
	return b.String()
}

// describe writes an option's names and what it means, beside them where they are short.
func describe(b *strings.Builder, r Row) {
	const column = 28
	indent := strings.Repeat(" ", column)
	names := strings.Join(r.Spelled(), ", ") + strings.Repeat(" VALUE", r.Args)
	if len(names) > column-4 {
		b.WriteString(visible.Wrap("  ", "    ", names, helpWidth))
		names = ""
	}
	b.WriteString(visible.Wrap(fmt.Sprintf("  %-*s", column-2, names), indent, plain(r.Means), helpWidth))
}

var link = pattern.Of(`\[([a-z-]+)\.md\]\([a-z-]+\.md\)`)

// plain is Markdown of the tables as text.
func plain(means string) string {
	return strings.ReplaceAll(link().ReplaceAllString(means, "mpiup help $1"), "`", "")
}
