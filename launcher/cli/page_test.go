package cli

import (
	"strings"
	"testing"
)

// Paragraphs and lists are wrapped, tables are columns where they fit, links are what to type, comments are not shown.
func TestPage(t *testing.T) {
	const page = `# Title
<!-- made by
a test -->
One **two** three [four](other.md#x) and [five](none.md),
six ` + "`seven`" + ` <https://x>.

- an item of a list that is longer than a line
- [other.md](other.md)

| flag | what it does |
|---|---|
| ` + "`-a \\| b`" + ` | a sentence that takes more than one line here |

` + "```sh\nmpiup run   a\n```" + `

| a very long name of a column | another very long name | more |
|---|---|---|
| first | second | third |
`
	const want = `Title
One two three four (mpiup help
other) and five, six seven
<https://x>.

- an item of a list that is
  longer than a line
- mpiup help other

flag    what it does
-a | b  a sentence that takes
        more than one line here

    mpiup run   a

first: second; third
`
	got := Page(page, func(name string) bool { return name == "other" }, Look{Width: 32})
	if got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	bold := Page("# A\n\nb\n", nil, Look{Width: 32, Bold: true})
	if !strings.HasPrefix(bold, "\x1b[1mA\x1b[0m\n") {
		t.Errorf("%q", bold)
	}
}
