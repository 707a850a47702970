package verdict

import (
	"encoding/json"
	"errors"
	"fmt"
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
	errnoWord  = pattern.Of(`^E[A-Z0-9]{1,15}$`)
	signalWord = pattern.Of(`^SIG[A-Z0-9+]{1,12}$`)
	phaseWord  = pattern.Of(`^[a-z]{1,16}$`)
	devices    = pattern.Of(`^[A-Za-z0-9][A-Za-z0-9_.:/-]{0,63}$`)
	rankRanges = pattern.Of(`^[0-9]{1,7}(?:[-,][0-9]{1,7}){0,127}$`)
	stackTools = pattern.Of(`^(?:eu-stack|gdb|py-spy|kernel)(?: and py-spy)?$`)
)

// Claims are the sentences of a verdict that was read. Anybody may have written them: they are shown as a quotation or not at all, but for those
// of a file that only its reader can have written (Believed).
type Claims struct {
	Evidence, Advice, Others []string
	Why                      string
	Absent                   []job.Absentee
}

// ErrKind is what Check gives of a verdict of a kind that there is not.
var ErrKind = errors.New("its verdict is of a kind that this mpiup does not know: the file is of another version, or somebody made it up")

// Parse reads a verdict's JSON, which anybody may have written.
func Parse(text []byte) (Verdict, error) {
	var v Verdict
	if err := json.Unmarshal(text, &v); err != nil {
		return Verdict{}, err
	}
	return v.Checked()
}

// Checked is a verdict that somebody else wrote, made anew: its names, devices and numbers as far as a run can have them, and each sentence,
// advice and command by what this build says of its kind and those names. What the file says is in Claims. Whoever reads a verdict, from
// whatever file or stream, calls it before anything else is done with it (internal/archtest.TestVerdictsAreReadByOne).
func (v Verdict) Checked() (Verdict, error) {
	if Of(v.Kind).Title == "" {
		return Verdict{}, ErrKind
	}
	v.Phase = onlyIf(phaseWord, v.Phase)
	v.Signal = onlyIf(signalWord, v.Signal)
	v.Errno = onlyIf(errnoWord, v.Errno)
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
	inPod := v.Pod != ""
	if v.Pod = ""; inPod {
		v.Pod = hostlist.FirstLabel(v.Host)
	}

	left := budget(maxRead)
	for _, list := range []*[]string{&v.Evidence, &v.Advice, &v.Others, &v.Stderr, &v.Frames} {
		*list = left.texts(*list)
	}
	v.Frames = slices.DeleteFunc(v.Frames, notFrame)
	v.Why = left.text(v.Why)
	v.Absent = left.absentees(v.Absent)
	v.Stacks = left.stacks(v.Stacks)
	v.retell(inPod)
	return v, nil
}

// Believed is a verdict that was read with the sentences of its file, which nobody but its reader can have written.
func (v Verdict) Believed() Verdict {
	if c := v.Claims; c != nil {
		v.Evidence, v.Advice, v.Others, v.Why, v.Absent = c.Evidence, c.Advice, c.Others, c.Why, c.Absent
		v.Claims = nil
	}
	return v
}

// Quoted are the sentences of a verdict that was read, as its file has them.
func (v Verdict) Quoted() (lines []string) {
	if c := v.Claims; c != nil {
		lines = slices.Concat(c.Evidence, c.Others)
		if c.Why != "" {
			lines = append(lines, c.Why)
		}
	}
	return lines
}

// retell puts what this build says of a failure in the place of what a file says of it.
func (v *Verdict) retell(inPod bool) {
	was := Claims{v.Evidence, v.Advice, v.Others, v.Why, v.Absent}
	v.Claims = &was

	first := ""
	if len(was.Evidence) > 0 {
		first = was.Evidence[0]
	}
	bare := v.Host != "" && !inPod
	words := strings.Join(slices.Concat(was.Evidence, v.Stderr), "\n") // which only choose among sentences of our own
	v.Evidence = []string{v.sentence(first)}
	v.Advice = Advice(v.Kind, words, bare)
	v.Others, v.Why, v.said = nil, "", nil

	v.Cordon = ""
	if (v.Kind == GPUFault || v.Kind == FabricDown) && !bare {
		v.Cordon = hostlist.Cordon(v.Node, v.Host)
	}

	v.Absent = slices.Clone(was.Absent)
	for i := range v.Absent {
		a := &v.Absent[i]
		torch := strings.HasPrefix(a.Name, "torch's ")
		a.Name = map[bool]string{true: "torch's "}[torch] + fmt.Sprint("rank ", a.Rank)
		a.Why = "it was absent from a collective in which others waited"
	}
}

// sentence is what happened, by a verdict's names and numbers: the sentence of a run that its file begins with, where those give one, else
// its kind's title.
func (v *Verdict) sentence(first string) string {
	if v.Rank != nil && v.Host != "" {
		best := ""
		for _, f := range v.endings() {
			if s := f.Sentence(); strings.HasPrefix(first, s) && len(s) > len(best) {
				best = s
			}
		}
		if best != "" {
			return best
		}
	}

	text := Of(v.Kind).Title
	switch {
	case v.Rank != nil:
		who := job.Process{Job: v.Job, Rank: *v.Rank}.String()
		if v.Host != "" {
			who += " on " + v.Host
		}
		text = who + ": " + text
	case v.Host != "":
		text = v.Host + ": " + text
	}
	if v.Signal != "" {
		text += ", " + v.Signal
	}
	if v.ExitCode != 0 {
		text += fmt.Sprintf(", exit code %d", v.ExitCode)
	}
	return text
}

// endings are the ways in which a verdict's rank can have ended, by its numbers.
func (v *Verdict) endings() []Fault {
	is := Fault{Host: v.Host, Process: job.Process{Job: v.Job, Rank: *v.Rank}, Code: v.ExitCode, Exit: job.Exit{Code: v.ExitCode}}
	list := []Fault{is}
	with := func(change func(*Fault)) {
		f := is
		change(&f)
		list = append(list, f)
	}
	with(func(f *Fault) { f.OOM = true })
	with(func(f *Fault) { f.Left, f.Exit.Code = true, 0 })
	with(func(f *Fault) { f.Uncalled, f.Exit.Code = true, 0 })
	with(func(f *Fault) { f.Unfinalized, f.Exit.Code = true, 0 })
	with(func(f *Fault) { f.Event = Aborted })
	with(func(f *Fault) { f.Event, f.Code = Aborted, 0 })
	with(func(f *Fault) { f.Event = NotStarted })
	for signal := 1; signal <= 64; signal++ {
		if v.Signal == job.SignalName(signal) {
			with(func(f *Fault) { f.Exit = job.Exit{Signal: signal} })
			with(func(f *Fault) { f.Exit = job.Exit{Signal: signal, Core: true} })
			with(func(f *Fault) { f.Exit, f.OOM = job.Exit{Signal: signal}, true })
		}
	}
	return list
}

// notFrame says that a text is no function of a stack with its place, as "main (a.c:12)" and "f(int, char**)" are: a word, and what stands in
// brackets.
func notFrame(text string) bool {
	depth := 0
	for i, c := range text {
		switch {
		case strings.ContainsRune("(<[{", c):
			depth++
		case strings.ContainsRune(")>]}", c):
			depth--
		case c == ' ' && depth <= 0 && !strings.HasPrefix(text[i:], " ("), strings.ContainsRune(";|&`$\n", c) && depth <= 0:
			return true
		}
	}
	return text == ""
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
		s.Means = onlyIf(stackTools, s.Means)
		s.Frames = slices.DeleteFunc(left.texts(s.Frames), notFrame)
		s.Hosts = slices.DeleteFunc(left.texts(s.Hosts), func(name string) bool { return hostName(name) == "" })
		taken = append(taken, s)
	}
	return taken
}
