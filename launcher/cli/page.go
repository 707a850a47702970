package cli

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/internal/visible"
)

// Look is how text is to look: its width in columns, and whether headings may be bold.
type Look struct {
	Width int
	Bold  bool
}

func (l Look) strong(text string) string {
	if !l.Bold {
		return text
	}
	return "\x1b[1m" + text + "\x1b[0m"
}

// Page is a page of the documentation as text: paragraphs and lists wrapped, tables as columns where they fit, links as what to type, no comments.
// known says whether mpiup help shows a page of that name. The Markdown is that of docs, and no other is read.
func Page(markdown string, known func(page string) bool, look Look) string {
	r := &pageReader{known: known, look: look}
	fenced := false
	for line := range strings.Lines(comments().ReplaceAllString(markdown, "")) {
		line = strings.TrimRight(line, " \n")
		switch {
		case strings.HasPrefix(line, "```"):
			r.flush()
			fenced = !fenced
		case fenced:
			r.out.WriteString("    " + line + "\n")
		default:
			r.line(line)
		}
	}
	r.flush()
	return blanks().ReplaceAllString(strings.Trim(r.out.String(), "\n"), "\n\n") + "\n"
}

var (
	comments   = pattern.Of(`(?s)<!--.*?-->\n?`)
	links      = pattern.Of(`!?\[([^\]]*)\]\(([^)\s]*)\)`)
	bullets    = pattern.Of(`^( *)([-*]|\d+\.) +`)
	tableRules = pattern.Of(`^\|[-:| ]+\|$`)
	blanks     = pattern.Of(`\n{3,}`)
)

// pageReader gathers lines that belong together.
type pageReader struct {
	known func(string) bool
	look  Look
	out   strings.Builder
	text  []string // of a paragraph or an item of a list
	hang  string   // before its first line: "- "
	rows  [][]string
}

func (r *pageReader) line(line string) {
	bullet := bullets().FindString(line)
	switch {
	case strings.HasPrefix(line, "|"):
		if len(r.rows) == 0 {
			r.flush()
		}
		if !tableRules().MatchString(line) {
			r.rows = append(r.rows, r.cells(line))
		}
	case line == "":
		r.flush()
		r.out.WriteString("\n")
	case strings.HasPrefix(line, "#"):
		r.flush()
		r.out.WriteString(r.look.strong(r.plain(strings.TrimLeft(line, "# "))) + "\n")
	case bullet != "":
		r.flush()
		r.hang, r.text = bullet, []string{line[len(bullet):]}
	case strings.HasPrefix(line, "    ") && len(r.text) == 0:
		r.flush()
		r.out.WriteString(line + "\n")
	default:
		if len(r.rows) > 0 {
			r.flush()
		}
		r.text = append(r.text, strings.TrimSpace(line))
	}
}

func (r *pageReader) flush() {
	if len(r.rows) > 0 {
		r.table()
	}
	if len(r.text) > 0 {
		r.wrap(r.hang, strings.Repeat(" ", len(r.hang)), r.plain(strings.Join(r.text, " ")))
	}
	r.rows, r.text, r.hang = nil, nil, ""
}

// cells are those of a row; a bar behind a backslash is one of the text.
func (r *pageReader) cells(line string) []string {
	const bar = "\x00"
	line = strings.ReplaceAll(strings.Trim(line, "| "), `\|`, bar)
	var list []string
	for cell := range strings.SplitSeq(line, "|") {
		list = append(list, r.plain(strings.ReplaceAll(strings.TrimSpace(cell), bar, "|")))
	}
	return list
}

// plain is a text without marks, its links as what to type.
func (r *pageReader) plain(text string) string {
	text = links().ReplaceAllStringFunc(text, func(link string) string {
		m := links().FindStringSubmatch(link)
		page, _, _ := strings.Cut(m[2], "#")
		name, isPage := strings.CutSuffix(page, ".md")
		switch {
		case isPage && r.known(name):
			if m[1] == page {
				return "mpiup help " + name
			}
			return m[1] + " (mpiup help " + name + ")"
		case strings.HasPrefix(m[2], "http"):
			return m[1] + " (" + m[2] + ")"
		}
		return m[1]
	})
	return strings.NewReplacer("**", "", "`", "", "<br>", " ").Replace(text)
}

// wrap writes words in lines of the width, first before the first one, and next before the others.
func (r *pageReader) wrap(first, next, text string) {
	r.out.WriteString(visible.Wrap(first, next, text, r.look.Width))
}

// table writes rows as columns, the last of which is wrapped; one that would leave too little room for that as a term and its text.
func (r *pageReader) table() {
	const gap, least = 2, 24
	var widths []int
	for _, row := range r.rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	before := 0
	for _, w := range widths[:max(len(widths)-1, 0)] {
		before += w + gap
	}
	if r.look.Width-before < least {
		for _, row := range r.rows[min(1, len(r.rows)-1):] {
			r.wrap("", "    ", row[0]+": "+strings.Join(slices.DeleteFunc(slices.Clone(row[1:]), func(s string) bool { return s == "" }), "; "))
		}
		return
	}
	for i, row := range r.rows {
		head := ""
		for j, cell := range row[:len(row)-1] {
			head += cell + strings.Repeat(" ", widths[j]-utf8.RuneCountInString(cell)+gap)
		}
		if i == 0 && strings.Join(row, "") != "" {
			r.out.WriteString(r.look.strong(strings.TrimRight(head+row[len(row)-1], " ")) + "\n")
			continue
		}
		r.wrap(head, strings.Repeat(" ", before), row[len(row)-1])
	}
}
