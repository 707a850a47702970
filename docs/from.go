package docs

import (
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/internal/pattern"
)

// links are those of a page.
var links = pattern.Of(` ?\(?\[[^\]]*\]\([^)]*\)\)?`)

// Elsewhere is what mpiup run has in place of another launcher's option, as the end of a sentence that complains of it; "": nothing is known.
func Elsewhere(option string) string {
	option, _, _ = strings.Cut(option, "=")
	for _, spelled := range []string{option, strings.ReplaceAll(option, "_", "-")} {
		if here, launcher, ok := instead(spelled); ok {
			here, _, _ = strings.Cut(links().ReplaceAllString(here, ""), "; ")
			return fmt.Sprintf("; for %s's mpiup run has: %s (mpiup help from)", launcher, strings.TrimSpace(here))
		}
	}
	return ""
}

// instead is what the page about other launchers says to write here in place of an option, in its own words, and whose option it is: "--time" is srun's,
// and here it is "--timeout 60m". False: the page does not have it.
func instead(option string) (here, launcher string, ok bool) {
	text, err := pages.ReadFile("from.md")
	if err != nil {
		return "", "", false
	}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.ReplaceAll(strings.Trim(line, "| \n"), `\|`, "\x00"), " | ")
		if len(cells) != 2 || !strings.HasPrefix(line, "| ") {
			continue
		}
		if cells[1] == "mpiup run" {
			launcher = cells[0]
			continue
		}
		for i, code := range strings.Split(cells[0], "`") {
			name, _, _ := strings.Cut(code, "=")
			name, _, _ = strings.Cut(name, " ")
			if i%2 == 1 && name == option {
				return strings.NewReplacer("`", "", "\x00", "|").Replace(cells[1]), launcher, true
			}
		}
	}
	return "", "", false
}
