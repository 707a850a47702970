package look

import (
	"slices"
	"time"

	"github.com/mpiup/mpiup/agent/reap/proctree"
	"github.com/mpiup/mpiup/internal/job"
)

// Rank is one that is watched.
type Rank struct {
	ID int
	Leader
	Output  uint64   // changes with each output
	Library uint64   // changes with what its MPI library says to its server
	GPUs    []string // UUIDs of those that it sees; none: it sees all
}

// Watcher says now and then what ranks have done since it was asked last. The zero value has seen none.
type Watcher struct {
	Busy func() (uuids []string, ok bool) // GPUs that work now; ok: there are GPUs at which somebody looks; nil: nobody does

	before map[int]Sample
	at     time.Time
}

// Look says what ranks have done since the look before. again: it has seen ranks before, without which that says nothing. An error says that /proc
// shows nothing.
func (w *Watcher) Look(ranks []Rank) (a job.Activity, again bool, err error) {
	now, looked, err := w.sample(ranks)
	if err != nil {
		return a, false, err
	}
	again = len(w.before) > 0
	a = Count(w.before, now, time.Since(w.at))
	a.Looked = looked
	w.before, w.at = now, time.Now()
	return a, again, nil
}

// sample is what ranks have done so far, by id, and at what of all of them it has looked. Sockets and GPUs are looked at only where nothing else
// shows work.
func (w *Watcher) sample(ranks []Rank) (map[int]Sample, job.Looked, error) {
	leaders := make([]Leader, len(ranks))
	for i, r := range ranks {
		leaders[i] = r.Leader
	}
	used, err := At(proctree.Proc{Root: "/proc"}, leaders)
	if err != nil {
		return nil, 0, err
	}
	out, looked, quiet := map[int]Sample{}, job.AtIO, true
	ranks = slices.DeleteFunc(slices.Clone(ranks), func(r Rank) bool { _, there := used[r.PID]; return !there })
	for _, r := range ranks {
		u := used[r.PID]
		s := Sample{
			CPU:     u.CPU,
			IO:      u.IO,
			Faults:  u.Faults,
			Delay:   u.Delay,
			Output:  r.Output,
			Library: r.Library,
			Running: u.State == 'R',
			Where:   u.Kernel.String(),
		}
		out[r.ID] = s
		if u.Blind {
			looked = 0
		}
		old, known := w.before[r.ID]
		quiet = quiet && (!known || Judge(old, s, time.Minute) != Works)
	}
	if quiet {
		if addTraffic(ranks, used, out) {
			looked |= job.AtSockets
		}
		if w.addGPUs(ranks, out) {
			looked |= job.AtGPUs
		}
	}
	return out, looked, nil
}

// addTraffic adds what the ranks' own sockets have moved; false: not all of them show.
func addTraffic(ranks []Rank, used map[int]Usage, out map[int]Sample) (all bool) {
	moved, err := Traffic()
	if err != nil {
		return false
	}
	all = true
	for _, r := range ranks {
		s := out[r.ID]
		own, err := Own(proctree.Proc{Root: "/proc"}, used[r.PID].PIDs, moved)
		if err != nil {
			all, s.Traffic = false, nil
		} else {
			s.Traffic = make(map[uint64]uint64, len(own))
			for inode, socket := range own {
				s.Traffic[inode] = socket.Moved
			}
		}
		out[r.ID] = s
	}
	return all
}

// addGPUs adds whether a GPU works that a rank may use; false: nobody can tell.
func (w *Watcher) addGPUs(ranks []Rank, out map[int]Sample) bool {
	if w.Busy == nil {
		return false
	}
	busy, ok := w.Busy()
	for _, r := range ranks {
		s := out[r.ID]
		s.GPU = slices.ContainsFunc(busy, func(uuid string) bool { return len(r.GPUs) == 0 || slices.Contains(r.GPUs, uuid) })
		out[r.ID] = s
	}
	return ok
}
