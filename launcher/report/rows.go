package report

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/mpiup/mpiup/internal/secret"
	"github.com/mpiup/mpiup/launcher/progress"
)

// row is a Row that grows. When it has too many changes for its share of maxChanges, its slot doubles and those within one become one.
type row struct{ Row }

// rowKey is whose row it is: a rank on one host.
type rowKey struct {
	job, rank int
	host      string
}

const (
	firstSlot = 0.5 // seconds
	lastSlot  = 1 << 30
	mostOfRow = 2000
)

// row is the place of a process's row, which goes on where the rank has had one on this host; -1: there are too many.
func (r *Recorder) row(p Rank) int {
	key := rowKey{p.Job, p.Rank, p.Host}
	if i, known := r.rowOf[key]; known {
		return i
	}
	if len(r.rows) >= maxRanks {
		return -1
	}
	if r.rowOf == nil {
		r.rowOf = map[rowKey]int{}
	}
	r.rowOf[key] = len(r.rows)
	r.rows = append(r.rows, row{Row{Job: p.Job, Rank: p.Rank, Host: p.Host, Slot: firstSlot}})
	return len(r.rows) - 1
}

// share is how many changes each row may have.
func (r *Recorder) share() int { return min(maxChanges/max(len(r.rows), 1), mostOfRow) }

// Did notes what a process does from now on: one of the letters of Row.Did.
func (r *Recorder) Did(at time.Time, id int, what byte) {
	if id >= len(r.now) || r.now[id] < 0 {
		return
	}
	w := &r.rows[r.now[id]]
	w.add(r.second(at), what)
	w.shrink(r.share())
}

// shrink leaves at most so many changes: those of each slot are one, and where starts and ends alone are more, the last stay.
func (w *row) shrink(most int) {
	for len(w.At) > most && w.Slot < lastSlot {
		w.Slot *= 2
		old := w.Row
		w.At, w.Did = nil, ""
		for i, at := range old.At {
			w.add(at, old.Did[i])
		}
	}
	if over := len(w.At) - most/2; len(w.At) > most {
		w.At, w.Did = slices.Clone(w.At[over:]), w.Did[over:]
	}
}

// stays says that a change is one of a rank's beginning or end.
func stays(what byte) bool { return what == Starts || what == Over || what == Astray }

// add appends a change. Of those within one slot the last counts, but a start and an end stay.
func (w *row) add(at float64, what byte) {
	n := len(w.At)
	switch {
	case n > 0 && w.Did[n-1] == what:
		return
	case n > 1 && at-w.At[n-1] < w.Slot && !stays(w.Did[n-1]) && !stays(what):
		w.Did = w.Did[:n-1] + string(what)
		if w.Did[n-2] == what {
			w.At, w.Did = w.At[:n-1], w.Did[:n-1]
		}
		return
	}
	w.At, w.Did = append(w.At, at), w.Did+string(what)
}

// lose ends a row at a time: what was noted later was not seen.
func (w *row) lose(at float64) {
	n := len(w.At)
	if n == 0 || w.Did[n-1] == Over {
		return
	}
	for n > 1 && w.At[n-1] > at {
		n--
	}
	w.At = append(w.At[:n:n], max(at, w.At[n-1]))
	w.Did = w.Did[:n] + string(rune(Astray))
}

// curve is a Curve that grows. Full, it keeps each second value, and takes each second of those that come.
type curve struct {
	Curve
	skipped int
}

// Value notes a value that a rank of the first job has told.
func (r *Recorder) Value(at time.Time, rank int, name string, value float64) {
	i := slices.IndexFunc(r.curves, func(c curve) bool { return c.Rank == rank && c.Name == name })
	if i < 0 {
		if len(r.curves) >= maxCurves {
			return
		}
		i = len(r.curves)
		r.curves = append(r.curves, curve{Curve: Curve{Rank: rank, Name: cut(secret.MaskText(name), maxText), Every: 1}})
	}
	r.curves[i].add(at.Sub(r.report.Begun).Seconds(), value, maxPoints)
}

// add appends a value to those that are kept, which are at most so many.
func (c *curve) add(at, value float64, most int) {
	odd := math.IsNaN(value) || math.IsInf(value, 0)
	if c.skipped++; c.skipped < c.Every && !odd {
		return
	}
	c.skipped = 0
	c.At = append(c.At, Second(at))
	c.Values = append(c.Values, Number(value))
	for len(c.At) >= max(most, 4) { // others may have come, which take their part
		c.halve()
	}
}

// halve leaves each second value.
func (c *curve) halve() {
	c.Every *= 2
	half := len(c.At) / 2
	for k := range half {
		c.At[k], c.Values[k] = c.At[2*k], c.Values[2*k]
	}
	c.At, c.Values = c.At[:half], c.Values[:half]
}

// MemoryOf notes what a host's container uses of its memory, in bytes; 0: unknown. A limit of 0 is none.
func (r *Recorder) MemoryOf(at time.Time, host string, used, limit uint64) {
	i, known := r.ofHost[host]
	switch {
	case used == 0 || !known && len(r.memory) >= maxMemory/4:
		return
	case !known:
		if i = len(r.memory); r.ofHost == nil {
			r.ofHost = map[string]int{}
		}
		r.ofHost[host] = i
		r.memory = append(r.memory, curve{Curve: Curve{Host: host, Name: "memory", Every: 1}})
	}
	c := &r.memory[i]
	if c.Limit = Number(limit); len(c.Values) == 0 || c.Values[len(c.Values)-1] != Number(used) {
		c.add(at.Sub(r.report.Begun).Seconds(), float64(used), maxMemory/len(r.memory))
	}
}

// Waited notes who the others wait for.
func (r *Recorder) Waited(at time.Time, w Wait) {
	if len(r.report.Waits) < maxWaits {
		w.At, w.Text = r.second(at), cut(secret.MaskText(w.Text), maxText)
		w.Ranks = w.Ranks[:min(len(w.Ranks), maxWaits)]
		r.report.Waits = append(r.report.Waits, w)
	}
}

// Point notes that a rank's line has told how far it is.
func (r *Recorder) Point(p progress.Point) {
	at := slices.IndexFunc(p.Values, func(v progress.Value) bool { return v.Name == progress.Step && !math.IsNaN(v.Number) })
	if r.hours.Point(p.At, p.ID, 0, false); at >= 0 {
		r.hours.Point(p.At, p.ID, p.Values[at].Number, true)
	}
}

// drawn is what was noted, for a report.
func (r *Recorder) drawn() (rows []Row, curves, memory []Curve) {
	for i := range r.rows {
		r.rows[i].shrink(r.share()) // which others have made less since its last change
		rows = append(rows, r.rows[i].Row)
	}
	for _, c := range r.curves {
		curves = append(curves, c.Curve)
	}
	for i := range r.memory {
		for len(r.memory[i].At) > max(maxMemory/len(r.memory), 4) {
			r.memory[i].halve()
		}
		memory = append(memory, r.memory[i].Curve)
	}
	return rows, curves, memory
}

// MarshalJSON implements json.Marshaler.
func (s Second) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, math.Round(1000*float64(s))/1000, 'f', -1, 64), nil
}

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) {
	if v := float64(n); math.IsNaN(v) || math.IsInf(v, 0) {
		return json.Marshal(fmt.Sprint(v))
	}
	return json.Marshal(float64(n))
}

// UnmarshalJSON implements json.Unmarshaler.
func (n *Number) UnmarshalJSON(text []byte) error {
	var word string
	if err := json.Unmarshal(text, (*float64)(n)); err == nil || json.Unmarshal(text, &word) != nil {
		return err
	}
	v, err := strconv.ParseFloat(word, 64)
	if err != nil {
		return fmt.Errorf("the value %.20q is no number", word)
	}
	*n = Number(v)
	return nil
}

// fits says that rows and curves are such as a Recorder makes.
func fits(rows []Row, curves, memory []Curve) bool {
	changes, points := 0, 0
	for _, m := range memory {
		if points += len(m.At); len(m.At) != len(m.Values) {
			return false
		}
	}
	for _, w := range rows {
		if changes += len(w.At); len(w.At) != len(w.Did) {
			return false
		}
	}
	for _, c := range curves {
		if len(c.At) != len(c.Values) || len(c.At) > maxPoints {
			return false
		}
	}
	return len(rows) <= maxRanks && changes <= maxChanges && len(curves) <= maxCurves && points <= maxMemory+4*len(memory) && len(memory) <= maxMemory/4
}
