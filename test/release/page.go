package main

import (
	"fmt"
	"regexp"
	"strings"
)

// footer is what each page ends with.
type footer struct{ version, date string }

var (
	heading = regexp.MustCompile(`^([A-Z][A-Za-z' ]*):$`)
	option  = regexp.MustCompile(`^ +(-.*?)(?:  +(\S.*))?$`)
	blanks  = regexp.MustCompile(`^ +`)
)

// page is the manual page (man(7)) of a help text. Its headings become sections, lines that begin with an option
// become tagged paragraphs with what follows them, and other indented lines stay as they are.
//
//	.TH MPIUP-RUN 1 date version
//	.SH NAME ...  .SH SYNOPSIS (Usage)  .SH DESCRIPTION (what stands before)  .SH EXAMPLES ...
func page(name, short, help string, f footer) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 %s %s mpiup\n", strings.ToUpper(name), f.date, quoted(f.version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(name), roff(strings.ToLower(short[:1])+short[1:]))
	about, sections := split(help)
	for _, s := range sections {
		if s.title == "Usage" {
			b.WriteString(".SH SYNOPSIS\n")
			s.write(&b)
		}
	}
	b.WriteString(".SH DESCRIPTION\n")
	about.write(&b)
	for _, s := range sections {
		if s.title != "Usage" {
			fmt.Fprintf(&b, ".SH %s\n", roff(strings.ToUpper(s.title)))
			s.write(&b)
		}
	}
	b.WriteString(".SH SEE ALSO\n")
	if name != "mpiup" {
		b.WriteString(".BR mpiup (1),\n")
	}
	b.WriteString(".B mpiup help\nfor the pages of its documentation.\n")
	return b.String()
}

// section is a part of a help text.
type section struct {
	title string
	lines []string
}

// split takes a help text apart at its headings. What stands before the first is about.
func split(help string) (about section, sections []section) {
	at := &about
	for line := range strings.Lines(help) {
		line = strings.TrimRight(line, "\n ")
		if m := heading.FindStringSubmatch(line); m != nil {
			sections = append(sections, section{title: m[1]})
			at = &sections[len(sections)-1]
			continue
		}
		at.lines = append(at.lines, line)
	}
	return about, sections
}

// write writes what stands below a heading.
func (s section) write(b *strings.Builder) {
	lines := s.lines
	for len(lines) > 0 && lines[len(lines)-1] == "" {
		lines = lines[:len(lines)-1]
	}
	verbatim := false
	shown := func(on bool) {
		if on != verbatim {
			b.WriteString(map[bool]string{true: ".nf\n", false: ".fi\n"}[on])
		}
		verbatim = on
	}
	begun, tagged, empty := false, false, false
	for _, line := range lines {
		m := option.FindStringSubmatch(line)
		switch {
		case line == "":
			empty = true
			continue
		case m != nil && s.title != "Examples":
			shown(false)
			fmt.Fprintf(b, ".TP\n.B %s\n", roff(m[1]))
			if m[2] != "" {
				b.WriteString(roff(m[2]) + "\n")
			}
			tagged = true
		case tagged && blanks.MatchString(line):
			b.WriteString(roff(strings.TrimLeft(line, " ")) + "\n")
		default:
			tagged = false
			if empty && begun {
				b.WriteString(".PP\n")
			}
			shown(blanks.MatchString(line))
			b.WriteString(roff(line) + "\n")
		}
		begun, empty = true, false
	}
	shown(false)
}

// roff keeps text from being taken for requests and special characters of roff's.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`, "^", `\(ha`, "~", `\(ti`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

// quoted is a word of a request.
func quoted(text string) string { return `"` + strings.ReplaceAll(roff(text), `"`, `\(dq`) + `"` }
