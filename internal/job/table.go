package job

import (
	"cmp"
	"slices"

	"github.com/mpiup/mpiup/internal/idset"
)

// Span is the ids of a job's processes in its run: the base of the job plus the rank.
//
//	ids   0 ........ 7   8 .. 9   10 ....... 17
//	      job 0          job 1    job 2
type Span struct{ Base, Size int }

// End is the first id above those of the job.
func (s Span) End() int { return s.Base + s.Size }

// Has says whether a process is of the job.
func (s Span) Has(id int) bool { return id >= s.Base && id < s.End() }

// IDs are all of them.
func (s Span) IDs() idset.Set { return idset.Range(s.Base, s.End()-1) }

// Ours makes a type that embeds Span one of a Table.
func (s Span) Ours() Span { return s }

// Table is jobs in the order of their ids, which no two share. The zero value is empty.
type Table[J interface {
	comparable
	Ours() Span
}] []J

// above is the index of the first job whose ids begin above id.
func (t Table[J]) above(id int) int {
	i, _ := slices.BinarySearchFunc(t, id+1, func(j J, id int) int { return cmp.Compare(j.Ours().Base, id) })
	return i
}

// Of is the job that a process belongs to; the zero J for an id of none.
func (t Table[J]) Of(id int) (j J) {
	if i := t.above(id); i > 0 && t[i-1].Ours().Has(id) {
		return t[i-1]
	}
	return j
}

// Free says that no job has one of those ids.
func (t Table[J]) Free(s Span) bool {
	i := t.above(s.Base)
	return (i == 0 || t[i-1].Ours().End() <= s.Base) && (i == len(t) || s.End() <= t[i].Ours().Base)
}

// Add adds a job whose ids are free.
func (t *Table[J]) Add(j J) { *t = slices.Insert(*t, t.above(j.Ours().Base), j) }

// Remove takes a job out, if it is there.
func (t *Table[J]) Remove(j J) { *t = slices.DeleteFunc(*t, func(o J) bool { return o == j }) }
