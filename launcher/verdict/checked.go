package verdict

import (
	"regexp"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/pattern"
)

// Bounds of a verdict that was read.
const (
	maxList  = 64       // of each list
	maxRead  = 64 << 10 // bytes of all its text
	maxPlain = 1024     // bytes of a sentence or line
)

var (
	plainWord = pattern.Of(`^[A-Za-z0-9_.:+-]{1,64}$`)
	devices   = pattern.Of(`^[A-Za-z0-9_.:/-]{1,64}$`)
)

// Checked is a verdict that somebody else wrote, as far as it can be one: without names that are no host's, devices and words that are
// none, and more than a verdict has. Its command is made from its names.
func (v Verdict) Checked() Verdict {
	fits := func(re func() *regexp.Regexp, texts ...*string) {
		for _, s := range texts {
			if !re().MatchString(*s) {
				*s = ""
			}
		}
	}
	for _, name := range []*string{&v.Host, &v.Node} {
		if hostlist.CheckName(*name) != nil {
			*name = ""
		}
	}
	fits(plainWord, &v.Phase, &v.Signal, &v.Errno)
	fits(devices, &v.GPU, &v.PCI, &v.HCA)
	if v.Rank != nil && *v.Rank < 0 {
		v.Rank = nil
	}
	v.Pod = hostlist.FirstLabel(v.Host)
	if v.Cordon != "" {
		v.Cordon = hostlist.Cordon(v.Node, v.Host)
	}
	left := maxRead
	for _, list := range []*[]string{&v.Evidence, &v.Advice, &v.Others, &v.Stderr, &v.Frames} {
		*list = slices.Clone((*list)[:min(len(*list), maxList)])
		for i, s := range *list {
			s = s[:min(len(s), maxPlain, left)]
			left -= len(s)
			(*list)[i] = strings.ToValidUTF8(s, "")
		}
	}
	v.Absent = v.Absent[:min(len(v.Absent), maxList)]
	return v
}
