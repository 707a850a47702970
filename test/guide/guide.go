// Package guide reads the code blocks of a page of docs, for tests that follow the page line by line.
//
//	```python        Block{Kind: "python", Text: "# train.py\n…", Line: 12}
//	# train.py
//	…
//	```
package guide

import (
	"fmt"
	"os"
	"strings"
)

// Block is a fenced block of a page.
type Block struct {
	Kind string // what follows the fence: python, sh, text, yaml, dockerfile
	Text string // its lines, each with its end
	Line int    // of the page, counted from 1, where the block's text begins
}

// File is the name in the block's first line, "" where that is no comment with a name alone.
func (b Block) File() string {
	first, _, _ := strings.Cut(b.Text, "\n")
	name, ok := strings.CutPrefix(first, "# ")
	if !ok || strings.ContainsAny(name, " :") {
		return ""
	}
	return name
}

// Read gives the blocks of a page in their order. A fence that is not closed is an error.
func Read(path string) ([]Block, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var out []Block
	var open *Block
	n := 0
	for line := range strings.Lines(string(text)) {
		n++
		kind, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open == nil:
			open = &Block{Kind: strings.TrimSpace(kind), Line: n + 1}
		case fence:
			out = append(out, *open)
			open = nil
		case open != nil:
			open.Text += line
		}
	}
	if open != nil {
		return nil, fmt.Errorf("%s:%d: the block is not closed", path, open.Line-1)
	}
	return out, nil
}

// Of is the last block of a kind with that File, or the last of the kind where file is "". None is an error.
func Of(blocks []Block, kind, file string) (Block, error) {
	for i := len(blocks) - 1; i >= 0; i-- {
		if blocks[i].Kind == kind && (file == "" || blocks[i].File() == file) {
			return blocks[i], nil
		}
	}
	return Block{}, fmt.Errorf("no block %s %s", kind, file)
}
