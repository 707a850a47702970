package progress

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed ready.txt
var readyText string

// Bounds of what a user asks for and a rank writes.
const (
	maxPattern  = 4 << 10 // bytes
	maxPatterns = 16
	maxNames    = 16 // of values
	maxName     = 32 // bytes
	maxLine     = 4 << 10
)

// Names that mean something here.
const (
	Step = "step" // of Of
	Of   = "of"
	Rate = "rate" // steps a second
)

// Pattern is what lines are compared with: one expression, or several of one name; none: lines of ranks' own files alone are read.
type Pattern struct{ parts []part }

// OwnFile is the pattern of ranks that write NAME=VALUE to a file of their own.
const OwnFile = "file"

type part struct {
	expr   *regexp.Regexp
	groups []string // by the group's number; "": it has no name
}

// ParsePattern reads what --watch was given: a ready pattern's name, or an expression with named groups.
func ParsePattern(text string) (p Pattern, err error) {
	if text == OwnFile {
		return p, nil
	}
	for _, line := range strings.Split(readyText, "\n") {
		if name, rest, ok := strings.Cut(line, "\t"); ok && name == text {
			_, expr, _ := strings.Cut(rest, "\t")
			if err := p.add(expr); err != nil {
				return p, err
			}
		}
	}
	if p.parts == nil {
		err = p.add(text)
	}
	return p, err
}

func (p *Pattern) add(text string) error {
	one, err := compile(text)
	p.parts = append(p.parts, one)
	return err
}

// ReadyNames are the patterns that are known by name, in order.
func ReadyNames() (names []string) {
	for _, line := range strings.Split(readyText, "\n") {
		if name, _, ok := strings.Cut(line, "\t"); ok && !strings.HasPrefix(name, "#") && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

func compile(text string) (p part, err error) {
	if len(text) > maxPattern {
		return p, fmt.Errorf("a pattern of %d bytes; %d are possible", len(text), maxPattern)
	}
	if p.expr, err = regexp.Compile(text); err != nil {
		return p, errors.New(strings.TrimPrefix(err.Error(), "error parsing regexp: "))
	}
	p.groups = p.expr.SubexpNames()
	named := slices.DeleteFunc(slices.Clone(p.groups), func(g string) bool { return g == "" })
	switch {
	case len(named) == 0:
		return p, fmt.Errorf(`no named group and not one of %s; name a number's group, as in 'step (?P<step>\d+)'`, strings.Join(ReadyNames(), ", "))
	case len(named) > maxNames:
		return p, fmt.Errorf("%d named groups; %d are possible", len(named), maxNames)
	}
	for _, g := range named {
		if len(g) > maxName {
			return p, fmt.Errorf("the group's name %.*s… has over %d bytes", maxName, g, maxName)
		}
	}
	return p, nil
}

// prefixes are what lines that match have in them; nil: that is not known of one of the patterns. Without patterns no line matches.
func prefixes(patterns []Pattern) [][]byte {
	all := [][]byte{}
	for _, p := range patterns {
		for i := range p.parts {
			prefix, _ := p.parts[i].expr.LiteralPrefix()
			if prefix == "" {
				return nil
			}
			all = append(all, []byte(prefix))
		}
	}
	return all
}

// silent is how many bytes of data end lines in which no pattern can match: none of the prefixes is in them, and no escape sequence stands
// between two letters of one.
func silent(prefixes [][]byte, data []byte) int {
	end := bytes.LastIndexByte(data, '\n') + 1
	if prefixes == nil || bytes.IndexByte(data[:end], 0x1b) >= 0 {
		return 0
	}
	for _, p := range prefixes {
		if bytes.Contains(data[:end], p) {
			return 0
		}
	}
	return end
}

// Value is one number of a line.
type Value struct {
	Name   string
	Number float64 // NaN and infinities too
}

// match is what a line says, in the order of the groups; nil: it is no such line. A group without a number says nothing.
func (p *part) match(line []byte) (values []Value) {
	at := p.expr.FindSubmatchIndex(line)
	if at == nil {
		return nil
	}
	for i, name := range p.groups {
		if name == "" || at[2*i] < 0 {
			continue
		}
		if v, ok := number(string(line[at[2*i]:at[2*i+1]])); ok {
			values = append(values, Value{Name: name, Number: v})
		}
	}
	return values
}

// pairs reads NAME=VALUE ..., of which a value may be any number; names are such as those of groups.
func pairs(line string) (values []Value) {
	for _, word := range strings.Fields(line) {
		name, text, ok := strings.Cut(word, "=")
		if !ok || len(values) == maxNames || len(name) > maxName || !isName(name) {
			continue
		}
		if v, ok := number(text); ok {
			values = append(values, Value{Name: name, Number: v})
		}
	}
	return values
}

func isName(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(c rune) bool {
		return c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z') && (c < 'a' || c > 'z')
	})
}

// number reads a number as programs write it: 1,200 and 45% and 1.5D-03 too, with k, M or G behind it.
func number(s string) (float64, bool) {
	s = strings.ReplaceAll(strings.TrimSuffix(strings.TrimSpace(s), "%"), ",", "")
	unit := 1.0
	if n := len(s); n > 1 {
		switch s[n-1] {
		case 'k', 'K':
			unit, s = 1e3, s[:n-1]
		case 'M':
			unit, s = 1e6, s[:n-1]
		case 'G':
			unit, s = 1e9, s[:n-1]
		}
	}
	v, err := strconv.ParseFloat(s, 64)
	if err != nil && !errors.Is(err, strconv.ErrRange) {
		v, err = strconv.ParseFloat(strings.NewReplacer("D", "e", "d", "e").Replace(s), 64) // Fortran's
	}
	if err != nil && !math.IsInf(v, 0) {
		return 0, false
	}
	return v * unit, true
}
