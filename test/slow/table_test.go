package slow

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mpiup/mpiup/test/lab"
)

// Where the table stands in docs/slow.md.
const begin, end = "<!-- make slow writes this table -->\n", "<!-- of make slow -->\n"

// TestSlowTable compares the table in docs/slow.md with what docs/data/slow.tsv makes; it writes it where $MPIUP_SLOW_TABLE is set.
func TestSlowTable(t *testing.T) {
	root, err := lab.Root()
	if err != nil {
		t.Fatal(err)
	}
	_, list := data(t)
	page := filepath.Join(root, "docs", "slow.md")
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, there := bytes.Cut(text, []byte(begin))
	_, tail, whole := bytes.Cut(rest, []byte(end))
	if !there || !whole {
		t.Fatalf("%s has no place for the table: %q and %q", page, begin, end)
	}
	want := slices.Concat(head, []byte(begin), tableOf(list), []byte(end), tail)
	if bytes.Equal(text, want) {
		return
	}
	if os.Getenv("MPIUP_SLOW_TABLE") == "" {
		t.Fatalf("%s has another table than docs/data/slow.tsv makes: MPIUP_SLOW_TABLE=1 go test ./test/slow -run TestSlowTable writes it", page)
	}
	if err := os.WriteFile(page, want, 0o644); err != nil {
		t.Error(err)
	}
}

// tableOf has a row for each way and a column for each part: tries in which the rank is named, in which the cause is right too, of all;
// of the least part, in which anybody is.
func tableOf(list []result) []byte {
	var out bytes.Buffer
	out.WriteString("|way|ranks|5 %|20 %|50 %|100 %|\n|---|---|---|---|---|---|\n")
	for _, w := range ways {
		fmt.Fprintf(&out, "|%s|%d", w.name, w.ranks)
		for _, part := range parts {
			named, caused, all := 0, 0, 0
			for _, r := range list {
				if r.way != w.name || r.ranks != w.ranks || r.part != part {
					continue
				}
				all++
				if r.named == "right" {
					named++
				}
				if r.named == "right" && r.cause == "right" {
					caused++
				}
			}
			switch {
			case all == 0:
				out.WriteString("|-")
			case part < 0.1:
				fmt.Fprintf(&out, "|%d/%d", all-named, all)
			default:
				fmt.Fprintf(&out, "|%d,%d/%d", named, caused, all)
			}
		}
		out.WriteString("|\n")
	}
	return out.Bytes()
}
