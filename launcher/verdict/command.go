package verdict

import (
	"regexp"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/pattern"
)

// Commands that people copy hold names that others state: agents, files, logs. Only what is a host name stands in one, so that none
// holds a second command or an option.

// pod is the pod of a host for a command; POD, for the reader to fill in, where the host's name is none.
func pod(host string) string {
	if label := hostlist.FirstLabel(host); hostlist.CheckName(label) == nil {
		return label
	}
	return "POD"
}

// cordon is the command that keeps jobs from a host's node; "" where there is no name for one.
func cordon(node, host string) string {
	switch label := hostlist.FirstLabel(host); {
	case hostlist.CheckName(node) == nil:
		return "kubectl cordon " + node
	case node == "" && hostlist.CheckName(label) == nil:
		return "kubectl cordon $(kubectl get pod " + label + " -o jsonpath='{.spec.nodeName}')"
	}
	return ""
}

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
	v.Pod = ""
	if v.Host != "" {
		v.Pod = hostlist.FirstLabel(v.Host)
	}
	if v.Cordon != "" {
		v.Cordon = cordon(v.Node, v.Host)
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
