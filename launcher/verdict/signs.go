package verdict

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/mpiup/mpiup/internal/pattern"
)

// Sign is one way to say one kind of failure.
type Sign struct {
	Kind   Kind // "": what looks like a failure and is none
	Text   string
	Likely bool // it is probably this kind, and may be another
	// General says that its words are so general that all else is believed first. It is Likely.
	General bool
	weight  *Weight
}

// Weight is how much it explains: its kind's, unless the sign is a lesser one.
func (s Sign) Weight() Weight {
	if s.weight != nil {
		return *s.weight
	}
	return Of(s.Kind).Weight
}

// vain says that whoever wrote it has waited for another one that did not come.
func (s Sign) vain() bool {
	return s.Weight() <= Wait && (s.Kind == Collective || s.Kind == Rendezvous)
}

// Recognise is the first sign that knows a text.
func Recognise(text string) (*Sign, bool) {
	lower := strings.ToLower(text)
	if strings.TrimSpace(lower) == "" {
		return nil, false // before the table is read, for a rank that said nothing is to be told of soon
	}
	if i := words().First(lower); i >= 0 {
		s := &Signs()[i]
		return s, s.Kind != ""
	}
	return nil, false
}

//go:embed signs.txt
var signsText string

// Signs is the table. The first sign that knows a line counts, so that special ones stand above general ones.
var Signs = sync.OnceValue(func() []Sign {
	all, err := readSigns(signsText)
	if err != nil { // as the tests would have seen
		panic(err)
	}
	return all
})

//go:embed plain.txt
var plainText string

var general = sync.OnceValue(func() []Sign {
	all, err := readSigns(plainText)
	if err != nil { // as the tests would have seen
		panic(err)
	}
	return all
})

// Plain is what general words tell of a line that tells of a failure; Sign.General: if it says besides that something failed. nil: nothing.
func Plain(text string) *Sign {
	if i := generalWords().First(strings.ToLower(text)); i >= 0 {
		return &general()[i]
	}
	return nil
}

// mistake is an exception that a program's own mistake or its data make.
var mistake = pattern.Of(`^(?:Value|Key|Index|Type|Attribute|Assertion|Name|ZeroDivision|Overflow|Recursion|Syntax|ModuleNotFound|FileNotFound)Error`)

var words, generalWords = wordsOf(Signs), wordsOf(general)

func wordsOf(table func() []Sign) func() *pattern.Words {
	return sync.OnceValue(func() *pattern.Words {
		var texts []string
		for _, s := range table() {
			texts = append(texts, strings.ToLower(s.Text))
		}
		return pattern.Looked(texts)
	})
}

// readSigns takes the table's text apart, whose first lines say how it is written.
func readSigns(text string) (all []Sign, err error) {
	var of Sign
	n := 0
	for row := range strings.Lines(text) {
		n++
		row = strings.TrimSuffix(row, "\n")
		if row == "" || row[0] == '#' {
			continue
		}
		if head, ok := strings.CutPrefix(row, "= "); ok {
			if of, err = readHead(head); err != nil {
				return nil, fmt.Errorf("row %d: %w", n, err)
			}
			continue
		}
		if row[0] == '"' {
			if row, err = strconv.Unquote(row); err != nil {
				return nil, fmt.Errorf("row %d: %w", n, err)
			}
		}
		s, text, guess := of, strings.TrimPrefix(row, "?"), row[0] == '?'
		s.Text, s.Likely = text, of.Likely || guess
		all = append(all, s)
	}
	return all, nil
}

// readHead reads "KIND [WEIGHT] [probably|general]".
func readHead(head string) (of Sign, err error) {
	words := strings.Fields(head)
	if k := Kind(words[0]); Of(k).Title != "" {
		of.Kind = k
	} else if words[0] != "none" {
		return of, fmt.Errorf("%q is no kind", words[0])
	}
	for _, word := range words[1:] {
		w, ok := weights[word]
		switch {
		case word == "probably", word == "general":
			of.Likely, of.General = true, word == "general"
		case ok:
			of.weight = &w
		default:
			return of, fmt.Errorf("%q is no weight", word)
		}
	}
	return of, nil
}

var weights = map[string]Weight{"echo": Echo, "wait": Wait, "ending": Ending, "program": Program, "cause": Cause}
