package blame

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

const pageHead = `# Whom mpiup names

When a job fails or hangs, does mpiup name the rank at fault, and no other? A try is a real job of four ranks on two hosts; the rank at fault is another
one each time. It counts as named when nobody else is named, and kind of failure and exit code are right.

`

const pageMethod = `
` + "`make blame`" + ` (test/blame) writes this page from its tries, test/blame/testdata/results.tsv; do not edit it. Hosts are Linux namespaces with an agent each as
PID 1, with other tries on the same agents. MPICH is 4.0.2, Open MPI 4.1.4, torch 1.13 over Gloo (Debian's), mpi4py 4.1.2 with the MPICH 5.0.2 of PyPI;
"sockets" are Python programs in a ring of TCP connections. One of those that "lets go" closes its sockets and lives on for 0.3 s: its peers end
at once over a reset that names nobody, and mpiup stops it with the rest. No evidence tells it then from them.

The 80 tries of mpi4py with a segfault and with a reset connection were made last, one at a time. MPICH 5.0.2 crashes over the loss of a rank, at times
before that rank's end is heard: both are named then, as ranks of which one was first, which counts as nobody.
`

// stacks are the columns.
var stacks = []string{"plain", "wrapped", "workers", "hosts", "MPICH", "Open MPI", "sockets", "torch", "mpi4py"}

const (
	pageFile    = "docs/blame.md"
	resultsFile = "test/blame/testdata/results.tsv"
)

// TestBlamePage compares the page with what the results make; it writes both from the file $MPIUP_BLAME_PAGE, where there is one.
func TestBlamePage(t *testing.T) {
	root, err := lab.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, data := filepath.Join(root, pageFile), filepath.Join(root, resultsFile)
	from := os.Getenv("MPIUP_BLAME_PAGE")
	if from == "" {
		from = data
	}
	rs, err := read(from)
	if err != nil || len(rs.list) == 0 {
		t.Fatal(from, len(rs.list), err)
	}
	want := pageOf(rs)
	if from != data {
		if err := os.WriteFile(data, rs.text(), 0o644); err != nil {
			t.Error(err)
		}
		if err := os.WriteFile(page, want, 0o644); err != nil {
			t.Error(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what %s makes: MPIUP_BLAME_PAGE=%s go test ./test/blame -run TestBlamePage writes it; %v", pageFile, resultsFile, resultsFile, err)
	}
}

// counted are tries by how they came out.
type counted map[outcome]int

func (c counted) all() (n int) {
	for o, k := range c {
		if o != broken {
			n += k
		}
	}
	return n
}

// cell is the tries in few words.
func (c counted) cell() string {
	if c.all() == 0 {
		return ""
	}
	text := fmt.Sprintf("%d/%d", c[right], c.all())
	for _, o := range []struct {
		is   outcome
		mark string
	}{{wrong, "**wrong**"}, {nobody, "*nobody*"}, {other, "*other*"}} {
		if n := c[o.is]; n > 0 {
			text += fmt.Sprintf(", %d %s", n, o.mark)
		}
	}
	return text
}

// pageOf is the page of results.
func pageOf(rs *results) []byte {
	var out bytes.Buffer
	out.WriteString(pageHead)
	rows, cells := []string{}, map[[2]string]counted{}
	isHabit := map[string]bool{}
	for _, h := range habits() {
		isHabit[h.name+", "+h.stack] = true
	}
	bands := []counted{{}, {}, {}}
	total, habitsTotal := counted{}, counted{}
	for _, r := range rs.list {
		key, habit := [2]string{r.Scenario, r.Stack}, isHabit[r.Scenario+", "+r.Stack]
		if cells[key] == nil {
			cells[key] = counted{}
		}
		cells[key][r.Outcome]++
		if habit {
			habitsTotal[r.Outcome]++
			continue
		}
		total[r.Outcome]++
		bands[band(r.Load)][r.Outcome]++
	}
	for _, s := range scenarios() {
		if !slices.Contains(rows, s.name) {
			rows = append(rows, s.name)
		}
	}
	named := total.all() - total[nobody]
	fmt.Fprintf(&out, "**%d tries: %d named a rank, %d of them the guilty one and nobody else.**\n\n", total.all(), named, named-total[wrong])
	byStack := map[[2]string]counted{}
	for k, c := range cells {
		if isHabit[k[0]+", "+k[1]] {
			continue
		}
		if byStack[[2]string{k[1]}] == nil {
			byStack[[2]string{k[1]}] = counted{}
		}
		for o, n := range c {
			byStack[[2]string{k[1]}][o] += n
		}
	}
	fmt.Fprint(&out, "| programs | guilty one named, of tries |\n|---|---|\n")
	for _, s := range stacks {
		if c := byStack[[2]string{s}]; c.all() > 0 {
			fmt.Fprintf(&out, "| %s | %s |\n", s, c.cell())
		}
	}
	fmt.Fprintf(&out, "\n| load over the minute before | guilty one named, of tries |\n|---|---|\n")
	for i, name := range []string{"below 20", "20 to 40", "40 and more"} {
		fmt.Fprintf(&out, "| %s | %s |\n", name, bands[i].cell())
	}
	rows = slices.DeleteFunc(rows, func(row string) bool {
		return !slices.ContainsFunc(stacks, func(s string) bool { return cells[[2]string{row, s}].all() > 0 })
	})
	fmt.Fprintf(&out, "\n%d failures were tried; test/blame/testdata/results.tsv names them.\n", len(rows))
	rows = slices.DeleteFunc(rows, func(row string) bool {
		return !slices.ContainsFunc(stacks, func(s string) bool {
			c := cells[[2]string{row, s}]
			return c.all() > c[right]
		})
	})
	if len(rows) > 0 {
		fmt.Fprint(&out, "\n## What was not right\n\n")
		table(&out, "failure", rows, stacks, cells)
	}
	fmt.Fprintf(&out, "\n## Jobs that go on\n\nEach lasts %d s in its habit under `%s`. A cell is how many ended well, of all. MPICH runs without its own disconnection (test/mpi/finalize.h), "+
		"in which Debian's now and then waits for ever.\n\n", habitSeconds, strings.Join(habitFlags, " "))
	rows = nil
	for _, h := range habits() {
		if !slices.Contains(rows, h.name) {
			rows = append(rows, h.name)
		}
	}
	only := map[[2]string]counted{}
	for k, c := range cells {
		if isHabit[k[0]+", "+k[1]] {
			only[k] = c
		}
	}
	table(&out, "habit", rows, []string{"MPICH", "Open MPI", "sockets", "torch"}, only)
	fmt.Fprintf(&out, "\n%d runs: %d were ended.\n\n## How it was tried\n", habitsTotal.all(), habitsTotal[wrong])
	out.WriteString(pageMethod)
	fmt.Fprintf(&out, "\nCommits %s; %s.\n", strings.Join(commitsOf(rs.list), ", "), strings.TrimPrefix(rs.head, "# "))
	return out.Bytes()
}

func table(out *bytes.Buffer, what string, rows, columns []string, cells map[[2]string]counted) {
	fmt.Fprintf(out, "| %s | %s |\n|%s\n", what, strings.Join(columns, " | "), strings.Repeat("---|", len(columns)+1))
	for _, row := range rows {
		line := []string{row}
		for _, c := range columns {
			line = append(line, cells[[2]string{row, c}].cell())
		}
		fmt.Fprintf(out, "| %s |\n", strings.Join(line, " | "))
	}
}

// band is which band of load a try was in.
func band(load float64) int {
	switch {
	case load < 20:
		return 0
	case load < 40:
		return 1
	}
	return 2
}

func commitsOf(list []result) (commits []string) {
	for _, r := range list {
		if !slices.Contains(commits, r.Commit) {
			commits = append(commits, r.Commit)
		}
	}
	return commits
}
