package pattern

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Each text is lines, of which the one that begins with "!" is watched; its number is the process's.
func TestTwins(t *testing.T) {
	for _, tc := range []struct {
		name, log string
		number    int
		want      []int
	}{
		{"what one of them said before",
			"Task 2: Processed only 56454 out of 56509\n!MPI_ABORT was invoked on rank 2\nTask 4: Processed only 65936 out of 66025", 2, []int{4}},
		{"and after", "!MPI_ABORT was invoked on rank 2\nTask 4: Processed only 65936 out of 66025\nTask 2: Processed only 56454 out of 56509", 2, []int{4}},
		{"a tag, and what looks like one", ".4: transfer type wrong\n6: transfer type wrong\n!MPI_ABORT was invoked on rank 4", 4, []int{6}},
		{"the line itself", "!rank 3 failed on node w0 with code 1\nrank 5 failed on node w0 with code 1", 3, []int{5}},
		{"another code is another end", "!rank 3 failed on node w0 with code 1\nrank 5 failed on node w0 with code 15", 3, nil},
		{"other words behind, and another code",
			"!task 2: cannot read the file of its part a\ntask 3: cannot read the file of its part b\ntask 4: cannot read the file of its part, code 1", 2, []int{3}},
		{"a word of an end", "FATAL from PE   552: no input\n!FATAL from PE   567: no space", 567, []int{552}},
		{"such a word of no process", "error in line 5: no input\n!error in line 7: no space", 7, nil},
		{"blanks", "wrong input in rank  8\n!wrong input in rank 12", 12, []int{8}},
		{"a line that tells of no trouble", "Process 0 runs on w1\nProcess 1 runs on w1\n!rank 1 was killed", 1, nil},
		{"a number at the end of a long line",
			"!cannot read the file of its part: a.1\ncannot read the file of its part: a.2\ncannot read the file of its part: b.3", 1, []int{2}},
		{"few letters behind a tag", "1: wrong\n2: wrong\n!MPI_ABORT was invoked on rank 1", 1, []int{2}},
		{"too few letters", "rank 1 wrong\nrank 2 wrong\n!MPI_ABORT was invoked on rank 1", 1, nil},
		{"a part of a host's name", "!nid0001: only one of 7\nnid0002: only one of 8", 1, nil},
		{"fractions, negative numbers, addresses", "!wrong value 1.5, -1, 0x1 and 1f\nwrong value 2.5, -2, 0x2 and 2f", 1, nil},
		{"a line with another's tag", "3: wrong number of rank 1\n4: wrong number of rank 2\n!MPI_ABORT was invoked on rank 1", 1, nil},
		{"far before", "wrong input of rank 4" + strings.Repeat("\nx", window) + "\n!wrong input of rank 3", 3, nil},
		{"far after", "!wrong input of rank 3" + strings.Repeat("\nx", 3*window) + "\nwrong input of rank 4", 3, []int{4}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var all Twins
			watched := 0
			for i, line := range strings.Split(tc.log, "\n") {
				line, watch := strings.CutPrefix(line, "!")
				if all.See(i, line, -1); watch {
					all.Watch()
					watched = i
				}
			}
			got := all.Others(watched, tc.number, func(line string) bool { return strings.Contains(line, "only") || strings.Contains(line, "wrong") })
			slices.Sort(got)
			if got = slices.Compact(got); !slices.Equal(got, tc.want) {
				t.Errorf("%d, want %d", got, tc.want)
			}
		})
	}
}

func TestTwinsAreBounded(t *testing.T) {
	var all Twins
	for i := range 20_000 {
		all.See(i, fmt.Sprintf("wrong input of rank %d %s", i, strings.Repeat("x", i%1000)), -1)
		all.Watch()
	}
	if len(all.watched) > marks || len(all.by) > 3*marks {
		t.Errorf("%d lines, %d texts", len(all.watched), len(all.by))
	}
	for _, numbers := range all.by {
		if len(numbers[1]) > values {
			t.Errorf("%d numbers", len(numbers[1]))
		}
	}
}

func TestAlike(t *testing.T) {
	if a, b := Alike("rank 3 at 0x7f12"), Alike("rank 14 at 0x12"); a != b || a != "rank  at x" {
		t.Errorf("%q, %q", a, b)
	}
}
