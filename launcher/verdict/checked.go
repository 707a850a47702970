package verdict

import (
	"regexp"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/pattern"
)

// Bounds of a verdict that was read.
const (
	maxList  = 64       // of each list
	maxRead  = 64 << 10 // bytes of all its text
	maxPlain = 1024     // bytes of a sentence or line
	maxRank  = 1 << 20  // no job has a rank as high
)

var (
	kindWord   = pattern.Of(`^[a-z][a-z0-9-]{0,63}$`)
	plainWord  = pattern.Of(`^[A-Za-z0-9_.:+-]{1,64}$`)
	devices    = pattern.Of(`^[A-Za-z0-9_.:/-]{1,64}$`)
	rankRanges = pattern.Of(`^[0-9]{1,7}(?:[-,][0-9]{1,7}){0,127}$`)
)

// Checked is a verdict that somebody else wrote, as far as it can be one: without names that are no host's, kinds, devices and words that
// are none, numbers that no run has, and more text than a verdict has. Its command is made from its names, and none is taken from it.
func (v Verdict) Checked() Verdict {
	v.Kind = Kind(onlyIf(kindWord, string(v.Kind)))
	v.Phase = onlyIf(plainWord, v.Phase)
	v.Signal = onlyIf(plainWord, v.Signal)
	v.Errno = onlyIf(plainWord, v.Errno)
	v.GPU = onlyIf(devices, v.GPU)
	v.PCI = onlyIf(devices, v.PCI)
	v.HCA = onlyIf(devices, v.HCA)
	v.Ranks = onlyIf(rankRanges, v.Ranks)
	v.Alike = onlyIf(rankRanges, v.Alike)
	v.Reporters = onlyIf(rankRanges, v.Reporters)
	if !slices.Contains([]Confidence{Certain, Probable, OneOfSeveral, Unknown}, v.Confidence) {
		v.Confidence = ""
	}

	if v.Rank != nil && !possible(*v.Rank) {
		v.Rank = nil
	}
	for _, number := range []*int{&v.Job, &v.PID, &v.ExitCode, &v.Restarts} {
		*number = max(*number, 0)
	}

	v.Host = hostName(v.Host)
	v.Node = hostName(v.Node)
	v.Pod = hostlist.FirstLabel(v.Host)
	if v.Cordon != "" {
		v.Cordon = hostlist.Cordon(v.Node, v.Host)
	}

	left := budget(maxRead)
	for _, list := range []*[]string{&v.Evidence, &v.Advice, &v.Others, &v.Stderr, &v.Frames} {
		*list = left.texts(*list)
	}
	v.Why = left.text(v.Why)
	v.Absent = left.absentees(v.Absent)
	v.Stacks = left.stacks(v.Stacks)
	return v
}

// onlyIf is a text that has a form, else "".
func onlyIf(form func() *regexp.Regexp, text string) string {
	if !form().MatchString(text) {
		return ""
	}
	return text
}

// hostName is a name that a host may have, else "".
func hostName(name string) string {
	if hostlist.CheckName(name) != nil {
		return ""
	}
	return name
}

func possible(rank int) bool { return rank >= 0 && rank < maxRank }

// A budget is how many bytes of text may still be taken from a verdict that was read.
type budget int

// text is the beginning of a text, as much as may be taken of it.
func (left *budget) text(s string) string {
	s = s[:min(len(s), maxPlain, int(*left))]
	*left -= budget(len(s))
	return strings.ToValidUTF8(s, "")
}

// texts is the beginning of a list of texts. A list that is nil stays so.
func (left *budget) texts(list []string) []string {
	list = slices.Clone(list[:min(len(list), maxList)])
	for i, s := range list {
		list[i] = left.text(s)
	}
	return list
}

func (left *budget) absentees(list []job.Absentee) (taken []job.Absentee) {
	for _, a := range list[:min(len(list), maxList)] {
		if !possible(a.Rank) {
			continue
		}
		a.Name = left.text(a.Name)
		a.Host = hostName(a.Host)
		a.PID = max(a.PID, 0)
		a.Why = left.text(a.Why)
		taken = append(taken, a)
	}
	return taken
}

func (left *budget) stacks(list []job.Stack) (taken []job.Stack) {
	for _, s := range list[:min(len(list), maxList)] {
		s.Ranks = onlyIf(rankRanges, s.Ranks)
		for _, number := range []*int{&s.Job, &s.Count, &s.Of, &s.PID} {
			*number = max(*number, 0)
		}
		s.Means = left.text(s.Means)
		s.Frames = left.texts(s.Frames)
		s.Hosts = slices.DeleteFunc(left.texts(s.Hosts), func(name string) bool { return hostName(name) == "" })
		taken = append(taken, s)
	}
	return taken
}
