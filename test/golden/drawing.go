package golden

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// Move is a row of a machine's table, in words.
type Move struct{ From, Event, To string }

// Drawing fails the test where the drawing in a file's package comment is not that of the table: lines that begin with "//\t" below the line of
// its title and an empty one. With "go test -update" they are written anew.
func Drawing(t *testing.T, file, title string, table []Move) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	first := slices.Index(lines, "// "+title) + 2
	if first < 2 || first >= len(lines) || lines[first-1] != "//" {
		t.Fatalf("%s has no line %q with an empty one below", file, title)
	}
	end := first
	for strings.HasPrefix(lines[end], "//\t") {
		end++
	}
	want := drawn(table)
	if !slices.Equal(lines[first:end], want) && *update {
		err = os.WriteFile(file, []byte(strings.Join(slices.Concat(lines[:first], want, lines[end:]), "\n")), 0o644)
	} else if !slices.Equal(lines[first:end], want) {
		err = fmt.Errorf("%s: the drawing below %q is not its table's (go test -update writes it anew):\n%s", file, title, strings.Join(want, "\n"))
	}
	if err != nil {
		t.Error(err)
	}
}

// drawn is a line for each state that a table leaves, in the table's order, and another where several events would make it too long.
func drawn(table []Move) (lines []string) {
	const most = 110 // runes
	var states []string
	wide := 0
	for _, m := range table {
		if !slices.Contains(states, m.From) {
			states, wide = append(states, m.From), max(wide, len(m.From))
		}
	}
	for _, s := range states {
		line := fmt.Sprintf("//\t%-*s", wide, s)
		for _, m := range table {
			if m.From != s {
				continue
			}
			if move := fmt.Sprintf(" │ %s ─▶ %s", m.Event, m.To); len([]rune(line+move)) <= most {
				line += move
			} else {
				lines, line = append(lines, line), fmt.Sprintf("//\t%-*s", wide, "")+move
			}
		}
		lines = append(lines, line)
	}
	return lines
}
