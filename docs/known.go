package docs

import (
	"cmp"
	_ "embed"
	"fmt"
	"runtime"
	"strconv"
	"strings"
)

// known is which versions of libraries are known to hang, to crash or to lack something. Each row has a date and its source. A row is a notice and no
// verdict: nothing is refused by it, and nothing happened because of it.
//
//go:embed data/known.tsv
var known string

// The kinds of rows.
const (
	Hang  = "hang"
	Crash = "crash"
	Other = "other" // something does not work, and says so
)

// Known is one trouble of a library.
type Known struct {
	Library   string // "MPICH"
	From, To  string // versions, both included: "4.1" is all of 4.1.x
	Arch      string // GOARCH; "": any
	Condition string // without which it does not happen: "over UCX"; "": none
	Kind      string
	Symptom   string
	Remedy    string
	Source    string
	Date      string // when the source was last heard of
	Version   string // that is there, of those that KnownOf returns
}

// knownRows are all, in the table's order.
func knownRows() (rows []Known) {
	for i, line := range strings.Split(strings.TrimSuffix(known, "\n"), "\n") {
		f := strings.Split(line, "\t")
		if i == 0 || len(f) != 10 {
			continue // its names; a test sees to the rest
		}
		rows = append(rows, Known{Library: f[0], From: f[1], To: f[2], Arch: f[3], Condition: f[4], Kind: f[5], Symptom: f[6], Remedy: f[7],
			Source: f[8], Date: f[9]})
	}
	return rows
}

// KnownOf are the rows of a library as agents name it, on machines like this one: "Open MPI 4.1.4 (/usr/lib/libmpi.so.40)", "NCCL 2.28.9".
func KnownOf(library string) []Known { return knownOn(library, runtime.GOARCH) }

func knownOn(library, arch string) (rows []Known) {
	name, _, _ := strings.Cut(library, " (")
	i := max(strings.LastIndexByte(name, ' '), 0)
	name, version := name[:i], strings.TrimSpace(name[i:])
	for _, r := range knownRows() {
		if r.Library == name && (r.Arch == "" || r.Arch == arch) && version != "" && compare(version, r.From) >= 0 && compare(version, r.To) <= 0 {
			r.Version = version
			rows = append(rows, r)
		}
	}
	return rows
}

// Call is the function of MPI in which it happens; "": the row names none.
func (r Known) Call() string {
	for word := range strings.FieldsSeq(r.Symptom) {
		if strings.HasPrefix(word, "MPI_") {
			return word
		}
	}
	return ""
}

// Sentence is what there is to say.
func (r Known) Sentence() string {
	where := ""
	if r.Arch != "" {
		where = " on " + r.Arch
	}
	if r.Condition != "" {
		where += " " + r.Condition
	}
	verb := map[string]string{Hang: "is known to hang", Crash: "is known to crash"}[r.Kind]
	source, _, _ := strings.Cut(r.Source, " https://")
	return fmt.Sprintf("%s %s %s%s: %s; %s (%s)", r.Library, cmp.Or(r.Version, r.From), cmp.Or(verb, "has a known fault"), where, r.Symptom, r.Remedy, source)
}

// compare compares versions by as many numbers as the second one has: 4.1.2 is 4.1. A version with letters is older than the same without.
func compare(version, bound string) int {
	v, b := strings.Split(version, "."), strings.Split(bound, ".")
	for i, want := range b {
		if i == len(v) {
			return 0
		}
		n, rest := number(v[i])
		m, old := number(want)
		if c := cmp.Compare(n, m); c != 0 {
			return c
		}
		switch {
		case rest == old:
		case rest == "":
			return 1
		case old == "":
			return -1
		default:
			return strings.Compare(rest, old)
		}
	}
	return 0
}

// number is what a part of a version begins with, and what is left: "0b1" is 0 and "b1".
func number(part string) (n int, rest string) {
	i := 0
	for i < len(part) && part[i] >= '0' && part[i] <= '9' {
		i++
	}
	n, _ = strconv.Atoi(part[:min(i, 9)])
	return n, part[i:]
}
