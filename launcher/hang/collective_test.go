package hang

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/internal/idset"
)

// records reads lines of "rank group:last op/state/shape ...": each rank's part of a group of ranks 0 to size-1.
func records(t *testing.T, size int, lines string) (list []Record) {
	t.Helper()
	var all idset.Set
	for i := range size {
		all.Add(i)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(lines), "\n") {
		f := strings.Fields(line)
		rank, err := strconv.Atoi(f[0])
		if err != nil {
			t.Fatal(err)
		}
		r := Record{Rank: rank}
		for _, text := range f[1:] { // dp:7=all_reduce/open/[8]
			name, rest, _ := strings.Cut(text, ":")
			seq, rest, _ := strings.Cut(rest, "=")
			last, _ := strconv.Atoi(seq)
			p := strings.Split(rest, "/")
			r.Groups = append(r.Groups, Group{Name: name, Ranks: all, Last: uint64(last), Ops: []Op{
				{Seq: uint64(last) - 1, Name: "nccl:all_reduce", Shape: "[1]", Done: true},
				{Seq: uint64(last), Name: "nccl:" + p[0], Done: p[1] == "done", Shape: p[2], Where: "train.py:3 f"}}})
		}
		list = append(list, r)
	}
	return list
}

func TestFind(t *testing.T) {
	for _, c := range []struct {
		name  string
		size  int
		lines string
		want  string
	}{
		{"nobody waits", 2, "0 dp:7=all_reduce/done/[8]\n1 dp:7=all_reduce/done/[8]", ""},
		{"all wait in one operation", 2, "0 dp:7=all_reduce/open/[8]\n1 dp:7=all_reduce/open/[8]", ""},
		{"one has not come", 3, "0 dp:7=all_reduce/open/[8]\n1 dp:6=all_reduce/done/[8]\n2 dp:7=all_reduce/open/[8]",
			"1: it has not called nccl:all_reduce number 7 of group dp, in which 0,2 wait at train.py:3 f; it has finished number 6 there, nccl:all_reduce at train.py:3 f"},
		{"one calls something else", 3, "0 dp:7=all_reduce/open/[8]\n1 dp:7=broadcast/open/[8]\n2 dp:7=all_reduce/open/[8]",
			"1: it called nccl:broadcast of [8] as number 7 of group dp, and 0,2 nccl:all_reduce of [8] at train.py:3 f"},
		{"another size", 3, "0 dp:7=all_reduce/open/[8]\n1 dp:7=all_reduce/done/[9]\n2 dp:7=all_reduce/open/[8]",
			"1: it called nccl:all_reduce of [9] as number 7 of group dp, and 0,2 nccl:all_reduce of [8] at train.py:3 f"},
		{"sizes that may differ", 3, "0 dp:7=all_gather/open/[8]\n1 dp:7=all_gather/open/[9]\n2 dp:7=all_gather/open/[8]", ""},
		{"one against one", 2, "0 dp:7=all_reduce/open/[8]\n1 dp:7=broadcast/open/[8]", ""},
		{"one left nothing", 3, "0 dp:7=all_reduce/open/[8]\n2 dp:7=all_reduce/open/[8]",
			"1: it left no record of its collectives, and 0,2 wait at train.py:3 f in nccl:all_reduce number 7 of group dp"},
		{"one left nothing, and another is elsewhere", 3, "0 dp:7=all_reduce/open/[8]\n2 dp:7=all_reduce/done/[8]", ""},
		// Rank 1 waits for rank 3 in tp, so dp's others wait for it.
		{"the cause of a cause", 4, "0 dp:7=all_reduce/open/[8] tp:4=all_reduce/done/[2]\n1 dp:6=all_reduce/done/[8] tp:5=all_reduce/open/[2]\n2 dp:7=all_reduce/open/[8] tp:5=all_reduce/done/[2]\n3 dp:7=all_reduce/done/[8] tp:4=all_reduce/done/[2]",
			"3: it has not called nccl:all_reduce number 5 of group tp, in which 1 wait at train.py:3 f; it has finished number 4 there, nccl:all_reduce at train.py:3 f"},
	} {
		a, found := Find(records(t, c.size, c.lines))
		got := ""
		if found {
			for rank := range a.Ranks.All() {
				got = fmt.Sprintf("%s: %s", a.Ranks, a.Why(rank, func(s idset.Set) string { return s.String() }))
			}
		}
		if got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.name, got, c.want)
		}
	}
}
