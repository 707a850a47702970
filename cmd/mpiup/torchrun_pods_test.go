package main

import "testing"

// Sentences about a rank of one pod's run have its number in the whole job, and in other pods' words no host.
func TestRanksOfTheWholeJob(t *testing.T) {
	for _, tt := range []struct {
		sentence, here, elsewhere string
	}{
		{"rank 1 on w1 exited with code 3: x", "rank 9 on w1 exited with code 3: x", "rank 9 exited with code 3: x"},
		{"then: rank 0 on w1 was killed", "then: rank 8 on w1 was killed", "then: rank 8 was killed"},
		{"mpiup got SIGINT and ended the ranks", "mpiup got SIGINT and ended the ranks", "mpiup got SIGINT and ended the ranks"},
		{"rank 99999999999999999999 on w1 x", "rank 99999999999999999999 on w1 x", "rank 99999999999999999999 x"},
		{"it is said that rank 1 on w1 exited", "it is said that rank 1 on w1 exited", "it is said that rank 1 on w1 exited"},
	} {
		if got := renumber(tt.sentence, 8); got != tt.here {
			t.Errorf("%q here is %q", tt.sentence, got)
		}
		if got := jobwide(tt.sentence, 8); got != tt.elsewhere {
			t.Errorf("%q elsewhere is %q", tt.sentence, got)
		}
	}
}
