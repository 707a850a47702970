package doctor

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
)

// SharedTrial is what hosts found of a directory that they should share.
type SharedTrial struct {
	Dir   string         `json:"dir"`
	Hosts []string       `json:"hosts"`
	Write []job.DirTrial `json:"write"`           // of each host
	Read  []job.DirTrial `json:"read,omitempty"`  // of each host; nil: a host could not write
	Lock  []job.DirTrial `json:"lock,omitempty"`  // of each host; nil: a host did not read what was written
	Count int            `json:"count,omitempty"` // what the counter said at last
	Left  []Left         `json:"left,omitempty"`  // where what was written could not be removed
}

// Left is a host that could not remove what was written.
type Left struct {
	Host  string `json:"host"`
	Path  string `json:"path"`
	Error string `json:"error"`
}

const sharedCheck = "shared directory"

// lateFile is how late another host's file may appear: MPI-IO and checkpoints are read at once.
const lateFile = time.Second

// JudgeShared adds what the trial of a directory says.
func JudgeShared(r *Report, s *SharedTrial) {
	r.SharedDir = s
	const readWriteMany = "mount one file system there that all hosts may write (of a volume: ReadWriteMany)"
	for i, h := range s.Hosts {
		if w := s.Write[i]; w.Error != "" {
			r.add(sharedCheck, Fail, fmt.Sprintf("%s: %s", s.Dir, w.Error), w.Fix, h)
		}
	}
	for i, read := range s.Read {
		h := s.Hosts[i]
		switch {
		case read.Error != "":
			r.add(sharedCheck, Fail, fmt.Sprintf("%s: %s", s.Dir, read.Error), read.Fix, h)
		case len(read.Missing) > 0:
			r.add(sharedCheck, Fail, fmt.Sprintf("%s: what %s wrote is not there: it is another directory", s.Dir, few(s.names(read.Missing))), readWriteMany, h)
		case read.Wrong > 0:
			r.add(sharedCheck, Fail, fmt.Sprintf("%s: %s of what %s wrote are other bytes here", s.Dir, visible.Count(int(read.Wrong), "byte"),
				s.Hosts[(i+1)%len(s.Hosts)]), "look at the storage's own logs, and do not trust checkpoints there", h)
		case time.Duration(read.LateNS) > lateFile:
			r.add(sharedCheck, Warn, fmt.Sprintf("%s: the last of the others' files appeared after %v", s.Dir, time.Duration(read.LateNS).Round(100*time.Millisecond)),
				"mount it with less caching of names and attributes (NFS: lookupcache=none, actimeo=1)", h)
		}
	}
	judgeLocks(r, s)
	for _, l := range s.Left {
		r.add(sharedCheck, Warn, fmt.Sprintf("%s could not be removed: %s", l.Path, l.Error), "remove it by hand", l.Host)
	}
	judgeSpeed(r, s)
	r.worst()
}

// judgeLocks says whether a lock of one host keeps the others out.
func judgeLocks(r *Report, s *SharedTrial) {
	const check, mount = "locks", "mount it with locks (NFS: without nolock or local_lock)"
	var loose, stale []string
	raised, failed := 0, false
	for i, l := range s.Lock {
		h := s.Hosts[i]
		raised += l.Locked
		switch {
		case l.Error != "":
			r.add(check, Fail, fmt.Sprintf("%s: %s", s.Dir, l.Error), l.Fix, h)
			failed = true
		case l.NoLocks != "":
			r.add(check, Warn, fmt.Sprintf("%s: files cannot be locked: %s", s.Dir, l.NoLocks),
				"MPI-IO and HDF5 lock files: mount it with locks (NFS: without nolock), or tell them not to (HDF5_USE_FILE_LOCKING=FALSE)", h)
		case l.Loose:
			loose = append(loose, h)
		case l.Stale:
			stale = append(stale, h)
		}
	}
	if len(loose) > 0 {
		r.add(check, Fail, s.Dir+": they do not hold between hosts: what another host had locked could be locked here", mount, loose...)
	}
	if len(stale) > 0 && !failed { // else it is of the host that failed
		r.add(check, Warn, s.Dir+": not tried: what another host wrote into a file that was there already was not seen here in time",
			"mount it so that an open asks the server (NFS: without nocto)", stale...)
	}
	switch {
	case s.Count < raised:
		r.add(check, Fail, fmt.Sprintf("%s: they do not hold between hosts: a counter was raised %d times under a lock and says %d", s.Dir, raised, s.Count),
			mount, s.Hosts...)
	case raised > 0 && loose == nil && stale == nil && !failed:
		r.add(check, Pass, fmt.Sprintf("%s: a lock kept every other host out; a counter was raised %d times under one, and "+
			"none was lost", s.Dir, raised), "", s.Hosts...)
	}
}

func (s *SharedTrial) names(hosts []int) (names []string) {
	for _, i := range hosts {
		if i >= 0 && i < len(s.Hosts) {
			names = append(names, s.Hosts[i])
		}
	}
	return names
}

// perSecond is 10^6 bytes a second; 0 where nothing was measured.
func perSecond(size, ns int64) float64 {
	if size <= 0 || ns <= 0 {
		return 0
	}
	return float64(size) / (float64(ns) / 1e3)
}

// middle is the median of values; 0 of none.
func middle(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// judgeSpeed compares how fast hosts write, all at once, and says how fast that was.
func judgeSpeed(r *Report, s *SharedTrial) {
	var writes, reads, small []float64
	for i, w := range s.Write {
		if v := perSecond(w.Size, w.WriteNS); v > 0 {
			writes, small = append(writes, v), append(small, float64(w.SmallNS)/1e6)
		}
		if i < len(s.Read) {
			if v := perSecond(w.Size, s.Read[i].ReadNS); v > 0 {
				reads = append(reads, v)
			}
		}
	}
	if len(writes) < len(s.Hosts) || len(reads) < len(s.Hosts) {
		return
	}
	usual := middle(writes)
	var fine []string
	sum := 0.0
	for i, h := range s.Hosts {
		sum += writes[i]
		if writes[i] < usual/2 {
			r.add("storage speed", Warn, fmt.Sprintf("%s: writes %s, and the median is %s", s.Dir, rate(writes[i]), rate(usual)),
				"look at this node's way to the storage; --bandwidth and --fabric measure its network", h)
			continue
		}
		fine = append(fine, h)
	}
	r.add("storage speed", Pass, fmt.Sprintf("%s: %d MiB by each host at once: written at %s a host, %s in all; read at %s; a file of 4 KiB takes %.2f ms",
		s.Dir, s.Write[0].Size>>20, rate(usual), rate(sum), rate(middle(reads)), middle(small)), "", fine...)
}

// Checked is a command of the site's own, and what became of it on each host.
type Checked struct {
	Command  string    `json:"command"`
	Outcomes []Outcome `json:"outcomes"`
}

// Outcome is a command's on one host.
type Outcome struct {
	Host  string   `json:"host"`
	Code  int      `json:"code"`
	Lines []string `json:"lines,omitempty"` // the last that it wrote, to either stream
	Error string   `json:"error,omitempty"` // why there is no code of the command's own
}

func (o *Outcome) text() string {
	text := fmt.Sprintf("code %d", o.Code)
	if o.Error != "" {
		text = o.Error
	}
	if len(o.Lines) > 0 {
		text += ": " + strings.Join(o.Lines, " / ")
	}
	return text
}

// JudgeChecked adds a site's own check: hosts on which it failed first, then those that differ from most.
func JudgeChecked(r *Report, c Checked) {
	r.Checks = append(r.Checks, c)
	alike := map[string]int{}
	for i := range c.Outcomes {
		alike[c.Outcomes[i].text()]++
	}
	list := slices.Clone(c.Outcomes)
	bad := func(o Outcome) int {
		if o.Code != 0 || o.Error != "" {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b Outcome) int {
		return cmp.Or(cmp.Compare(bad(a), bad(b)), cmp.Compare(alike[a.text()], alike[b.text()]))
	})
	name := c.Command
	if most := []rune(name); len(most) > 30 {
		name = string(most[:27]) + "..."
	}
	for _, o := range list {
		verdict, fix := Pass, ""
		if bad(o) == 0 {
			verdict, fix = Fail, "run it there by hand: mpiup exec "+o.Host+" -- sh -c '...'"
		}
		r.add("check "+name, verdict, o.text(), fix, o.Host)
	}
	r.worst()
}
