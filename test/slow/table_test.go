package slow

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// What stacks say of a rank is no second name.
func TestSaid(t *testing.T) {
	const named = "rank 1 (w1, pid 7): the others waited 50 % of the last 6 s for it; it was computing"
	text := "mpiup: " + named + "\nmpiup: rank 1 (w1, pid 7): in 5 of 5 looks within 5 s it was in step, called by main, the others in MPI_Allreduce\n" +
		"mpiup: rank 1 (w1, pid 7): its stacks show nothing that differs: in 0 of 5 looks within 5 s it was elsewhere than the others\nrank 0: the others waited \n"
	if got := said(text); !slices.Equal(got, []string{named}) {
		t.Errorf("%q", got)
	}
}

// losses are the table's columns: tries in which the others lost less than so much of their time, and no less than the column before.
var losses = []struct {
	head string
	less float64
}{{"under 8 %", mayBeSaid}, {"to 12 %", mustBeSaid}, {"to 25 %", 0.25}, {"to 42 %", 0.42}, {"over 42 %", 2}}

// tableOf has a row for each way and a column for each loss: tries in which the rank is named, in which the cause is right too, of all;
// of the least, in which anybody is, which is wrong.
func tableOf(list []result) []byte {
	var out bytes.Buffer
	out.WriteString("|way|ranks")
	for _, l := range losses {
		out.WriteString("|" + l.head)
	}
	out.WriteString("|\n|---|---" + strings.Repeat("|---", len(losses)) + "|\n")
	for _, w := range ways {
		fmt.Fprintf(&out, "|%s|%d", w.name, w.ranks)
		from := 0.0
		for _, l := range losses {
			named, caused, all := 0, 0, 0
			for _, r := range list {
				if r.way != w.name || r.ranks != w.ranks || r.lost < from || r.lost >= l.less {
					continue
				}
				all++
				if r.seconds > 0 && r.named != "wrong" || l.less == mayBeSaid && r.named != "right" {
					named++
				}
				if r.named == "right" && r.cause == "right" {
					caused++
				}
			}
			switch from = l.less; {
			case all == 0:
				out.WriteString("|-")
			case l.less == mayBeSaid:
				fmt.Fprintf(&out, "|%d/%d", named, all)
			default:
				fmt.Fprintf(&out, "|%d,%d/%d", named, caused, all)
			}
		}
		out.WriteString("|\n")
	}
	return out.Bytes()
}
