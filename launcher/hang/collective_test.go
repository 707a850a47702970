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
		list, _ := Find(records(t, c.size, c.lines))
		got := ""
		if len(list) > 0 {
			a := list[0]
			for rank := range a.Ranks.All() {
				got = fmt.Sprintf("%s: %s", a.Ranks, a.Why(rank, func(s idset.Set) string { return s.String() }))
			}
		}
		if got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.name, got, c.want)
		}
	}
}

// Records that one process made up, or one host's, name nobody but by what others bear out; what contradicts is said of both sides.
func TestLiarsRecordsNameNobody(t *testing.T) {
	const (
		waits   = " dp:7=all_reduce/open/[8]"
		came    = " dp:7=all_reduce/done/[8]"
		ahead   = " dp:1000=all_reduce/open/[8]"
		behind  = " dp:3=all_reduce/open/[8]"
		next    = " dp:8=all_reduce/open/[8]"
		absent  = " dp:6=all_reduce/done/[8]"
		another = " z:5=all_reduce/open/[8]"
	)
	for _, c := range []struct {
		name    string
		ranks   []string // "": it left no record
		each    int      // of a host
		torch   bool     // torch counts them otherwise
		seen    string
		want    string // who is named
		doubted string // what is said beside begins so
	}{
		{name: "one is ahead of those that wait for it", ranks: []string{ahead, waits, waits, waits}, each: 1,
			doubted: "rank 0's record and ranks 1-3's contradict each other: by the one number 1000 of group dp has begun, "},
		{name: "on one host", ranks: []string{ahead, waits, waits, waits}, each: 4, doubted: "rank 0's record and ranks 1-3's contradict each other: "},
		{name: "one is behind those that wait", ranks: []string{behind, waits, waits, waits}, each: 1, doubted: "ranks 1-3's records and rank 0's contradict each other: "},
		{name: "one is ahead of those that compute", ranks: []string{next, came, came, came}, each: 1, doubted: "rank 0 waits in nccl:all_reduce number 8 of group dp at train.py:3 f, by its record alone: "},
		{name: "one of two", ranks: []string{next, came}, each: 1, doubted: "rank 0 waits in "},
		{name: "one of two, on one host", ranks: []string{next, came}, each: 2, doubted: "rank 0 waits in "},
		{name: "half of the ranks", ranks: []string{next, next, came, came}, each: 1, doubted: "ranks 0-1 wait in nccl:all_reduce number 8 of group dp at train.py:3 f, by their records alone: "},
		{name: "one host of two", ranks: []string{next, next, came, came}, each: 2, doubted: "ranks 0-1 wait in "},
		{name: "one host of two, with most ranks", ranks: []string{next, next, next, came}, each: 3, doubted: "ranks 0-2 wait in "},
		{name: "one host of three", ranks: []string{next, next, came, came, came, came}, each: 2, doubted: "ranks 0-1 wait in "},
		{name: "one process for all of its host", ranks: []string{next, next, next, came}, each: 4, doubted: "ranks 0-2 wait in "},
		{name: "a group of its own with others", ranks: []string{another, came, came, came}, each: 1},
		{name: "a group of its own with those that left no record", ranks: []string{another, "", "", ""}, each: 1, doubted: "rank 0 waits in nccl:all_reduce number 5 of group z"},
		{name: "a group of its own, and others wait for it", ranks: []string{absent + another, waits, waits, waits}, each: 1},
		{name: "one host of two, where torch counts otherwise", ranks: []string{next, next, came, came}, each: 2, torch: true, doubted: "torch's ranks 0-1 wait in "},

		{name: "honest: one has not come", ranks: []string{waits, waits, waits, absent}, each: 2, want: "3"},
		{name: "honest: on three hosts", ranks: []string{waits, waits, absent}, each: 1, want: "2"},
		{name: "honest: one left nothing", ranks: []string{waits, waits, waits, ""}, each: 2, want: "3"},
		{name: "honest: one has not come, by torch's numbers", ranks: []string{waits, waits, waits, absent}, each: 2, torch: true, want: "3"},
		{name: "honest: of two, which its own host sees", ranks: []string{waits, absent}, each: 2, seen: "1", want: "1"},
		{name: "honest: one that waits for it belongs to no other group", ranks: []string{waits, waits, waits + another, absent}, each: 2, want: "3"},
		{name: "honest: one is ahead, as the root of a broadcast", ranks: []string{next, waits, waits, absent}, each: 2, want: "3", doubted: "rank 0's record and "},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := ""
			for rank, groups := range c.ranks {
				if groups != "" {
					text += fmt.Sprint(rank, groups, "\n")
				}
			}
			places := onHosts(idset.Range(0, len(c.ranks)-1), c.each)
			var r Records
			for _, rec := range records(t, len(c.ranks), text) {
				host := places.Host(rec.Rank)
				if c.torch {
					host = places.Host(len(c.ranks) - 1 - rec.Rank)
				}
				if err := r.Add(host, "", rec); err != nil {
					t.Fatal(err)
				}
			}
			away, doubts := r.Away(places, func(_, _ idset.Set) idset.Set { return set(t, c.seen) })
			var named idset.Set
			for _, a := range away {
				named.Add(a.Rank)
			}
			if named.String() != c.want {
				t.Errorf("%q is named, want %q: %+v", named, c.want, away)
			}
			said := ""
			for _, d := range doubts {
				said += string(d) + "\n"
			}
			if !strings.HasPrefix(said, c.doubted) || c.doubted == "" && said != "" {
				t.Errorf("it is said %q, want %q", said, c.doubted)
			}
		})
	}
}
