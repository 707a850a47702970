package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
)

// Verdict is what is said of a run that failed, for people (Lines) and for machines (docs/record.md describes the JSON). Rank, PID and what
// else is not known or not of that kind is left out.
type Verdict struct {
	Kind     Kind           `json:"kind"`
	Likely   bool           `json:"likely,omitempty"` // it may be another kind
	Phase    string         `json:"phase,omitempty"`  // what the run was doing: gathering, launching, wiring, running, stopping
	Rank     *int           `json:"rank,omitempty"`   // in its job
	Job      int            `json:"spawned_job,omitempty"`
	Host     string         `json:"host,omitempty"`
	Pod      string         `json:"pod,omitempty"`
	Node     string         `json:"node,omitempty"` // of Kubernetes
	PID      int            `json:"pid,omitempty"`
	Signal   string         `json:"signal,omitempty"`    // SIGKILL
	Errno    string         `json:"errno,omitempty"`     // ENOENT
	GPU      string         `json:"gpu,omitempty"`       // UUID
	PCI      string         `json:"pci,omitempty"`       // the GPU's address
	HCA      string         `json:"hca,omitempty"`       // device:port
	Cordon   string         `json:"cordon,omitempty"`    // the command that keeps jobs from the node
	ExitCode int            `json:"exit_code,omitempty"` // of the run; a log does not say it
	Restarts int            `json:"restarts,omitempty"`  // of the ranks before this
	Evidence []string       `json:"evidence"`            // what happened, the fault itself first
	Advice   []string       `json:"advice"`              // what to do, the likeliest to help first
	Others   []string       `json:"others,omitempty"`    // what else went wrong
	Stderr   []string       `json:"stderr,omitempty"`    // the first distinct lines of the rank's standard error
	Frames   []string       `json:"frames,omitempty"`    // of a crash, the innermost first, by the rank's own handler or its core file
	Absent   []job.Absentee `json:"absent,omitempty"`    // from a collective in which others waited
	Stacks   []job.Stack    `json:"stacks,omitempty"`    // of a run that hung, when it was ended: the fewest first

	// What a log tells (launcher/verdict/logs); of a run's time limit the first two:
	Confidence Confidence `json:"confidence,omitempty"`
	Alike      string     `json:"alike,omitempty"`     // ranks that failed in the same way, Rank among them
	Ranks      string     `json:"ranks,omitempty"`     // those ranks, "0-3", where it is several
	Reporters  string     `json:"reporters,omitempty"` // ranks that only say that they lost or waited for another one
	Why        string     `json:"why,omitempty"`       // Rank is named where the line is another one's

	said   []string // Evidence, the advice of the case, Others
	Claims *Claims  `json:"-"` // of one that was read: its file's own sentences
	hosts  bool     // other ranks failed alike, or another host has what was missed: one rank elsewhere shows nothing
}

// Confidence is how sure it is, by a log, that the failure began with the rank that is named.
type Confidence string

// The confidences. A failure of the whole job, as too few slots, names no rank and is certain or probable.
const (
	Certain      Confidence = "certain"        // a line of the rank's own, or the launcher's, says so
	Probable     Confidence = "probably"       // it follows from several lines, or the kind may be another
	OneOfSeveral Confidence = "one of several" // equals, of which nothing tells the first
	Unknown      Confidence = "unknown"        // no line says whose failure it is: nobody is named
)

// Circumstances are what a run knows of the guilty process and host beside the faults.
type Circumstances struct {
	Phase    string
	Bare     bool   // no host is a pod of Kubernetes
	Remote   bool   // the hosts are not, or not only, the launcher's own
	Away     string // a host of the job whose pod does not run; "": there is none
	Node     string // of the host
	PID      int
	GPU, PCI string // that the rank was given
	Wrote    Wrote
	Stderr   []string
	Frames   []string // of its last back-trace, or of its core file
}

// Verdict is the case as one; false when all went well.
func (c *Case) Verdict(where Circumstances) (Verdict, bool) {
	f, ok := c.Cause()
	if !ok {
		return Verdict{}, false
	}
	a := c.account(f)
	v := Verdict{Host: f.Host, Node: where.Node, Errno: f.Errno, ExitCode: f.Status(), Evidence: append([]string{a.what}, a.behind...), Advice: a.do,
		Others: a.others, said: a.lines()}
	v.Kind, v.Likely = c.kind(f)
	if c.alike.several() {
		v.Alike = c.alike.ranks.String()
	}
	v.hosts = c.hostly(f) != nil || v.Alike != ""
	if f.ID >= 0 {
		rank := f.Process.Rank
		v.Rank, v.Job, v.PID, v.Stderr = &rank, f.Process.Job, where.PID, where.Stderr
	}
	if f.Event == TimedOut {
		v.Ranks, v.Confidence, v.Stderr, v.Stacks = c.waited, c.sure, nil, c.Stacks
	}
	if f.Event == Alone {
		v.Ranks, v.Confidence = f.Ranks, Certain
	}
	switch {
	case f.Event == Ended && f.Exit.Signal != 0:
		v.Signal = job.SignalName(f.Exit.Signal)
	case f.Event == Signalled:
		v.Signal = job.SignalName(f.Code)
	case f.Event == LauncherTaken:
		v.Signal = job.SignalName(job.SIGTERM)
	}
	if v.Kind == Segfault || v.Kind == Crash || f.Event == Ended && f.Exit.Signal == job.SIGBUS {
		if v.Frames = where.Frames; len(v.Frames) > 0 {
			v.told(crashHint, crashedHint)
			v.told(dumpedHint, crashedHint)
		}
	}
	v.told(codeHint, where.Wrote.hint())
	if f.Left {
		if v.Confidence = Probable; f.Ranks != "" {
			v.Ranks, v.Confidence = f.Ranks, OneOfSeveral
		}
	}
	if f.Event == Aborted && c.found[f.ID].Kind == InitFailed { // another may have ended that was through it
		v.Confidence = Probable
	}
	if ids := c.rivals(f); !ids.Empty() {
		v.Ranks, v.Confidence = ids.String(), OneOfSeveral
	}
	v.report(c.reporters(f))
	v.blame(c.absent(f))
	if away := c.absent(f); c.looked(f) && len(away) > 0 && len(away) == len(c.Look.Away) && away[0] == c.Look.Away[0] {
		v.Confidence = Probable
		if len(away) > 1 {
			v.Confidence = OneOfSeveral
		}
	}
	v.complete(where, c.found[f.ID].Text)
	return v, true
}

// told puts what is known now in place of a hint.
func (v *Verdict) told(hint, known string) {
	for _, list := range [][]string{v.Advice, v.said} {
		if at := slices.Index(list, hint); at >= 0 {
			list[at] = known
		}
	}
}

// wroteLast begins a hint that has the last line of a process.
const wroteLast = "the code is the program's own: it wrote last: "

// Reason is one sentence: what happened, by the words of the rank, or else with its last line.
func (v *Verdict) Reason() string {
	if len(v.Evidence) == 0 {
		return ""
	}
	for _, do := range v.Advice {
		if last, ok := strings.CutPrefix(do, wroteLast); ok {
			return v.Evidence[0] + ", having written last: " + last
		}
	}
	return v.Evidence[0]
}

// Wrote is what the guilty process had to say.
type Wrote struct {
	Nothing bool   // it wrote nothing at all
	Last    string // its last line, where others wrote below it; "": it stands where people look
}

func (w Wrote) hint() string {
	switch {
	case w.Nothing:
		return "the code is the program's own: it wrote nothing"
	case w.Last != "":
		return wroteLast + w.Last
	}
	return codeHint
}

// Early is the verdict about a run that ended before any process was started, by its exit code and what it said. outrun says that
// another launcher has the run, and nobody took a pod away.
func Early(code int, outrun bool, lines []string, where Circumstances) Verdict {
	v := Verdict{Kind: byCode(code), ExitCode: code, Evidence: lines, said: lines}
	switch s, ok := Recognise(strings.Join(lines, "\n")); {
	case where.Away != "" && !where.Bare && (v.Kind == DNS || v.Kind == Network):
		v.Kind = NotRunning
		v.Advice = []string{"kubectl describe pod " + hostlist.Pod(where.Away) + " shows why it does not run"}
	case outrun || v.Kind == Terminated && where.Bare: // no pod ends, and somebody ends the launcher
		v.Kind = Interrupted
	case ok && v.Kind == Usage && s.Kind == Slots:
		v.Kind = Slots
	}
	switch {
	case v.Kind != Interrupted || outrun:
	case code == job.ExitPreempted:
		v.Signal = job.SignalName(job.SIGTERM)
	case code > 128:
		v.Signal = job.SignalName(code - 128)
	}
	v.complete(where, "")
	return v
}

// Crash says where the rank crashed; nil where that does not show.
func (v *Verdict) Crash() []string {
	if len(v.Frames) == 0 {
		return nil
	}
	return []string{"it crashed in " + strings.Join(v.Frames, ", called by ")}
}

// complete adds what follows from the rest: the pod, the guilty device, the line that cordons the node, and the kind's own advice.
// words are all that says of what kind it is.
func (v *Verdict) complete(where Circumstances, words string) {
	v.Phase = where.Phase
	if v.Host != "" && !where.Bare {
		v.Pod = hostlist.FirstLabel(v.Host)
	}
	text := strings.Join(append(slices.Clone(v.Evidence), append([]string{words}, v.Stderr...)...), "\n")
	v.GPU, v.PCI, v.HCA = job.DevicesIn(text)
	if v.Kind == GPUFault || v.Kind == GPUError || v.Kind == GPUMemory {
		if v.GPU == "" && v.PCI == "" {
			v.GPU, v.PCI = where.GPU, where.PCI
		}
	} else if v.Kind != FabricDown && v.Kind != FabricError {
		v.GPU, v.PCI, v.HCA = "", "", ""
	}
	if (v.Kind == GPUFault || v.Kind == FabricDown) && !where.Bare {
		v.Cordon = hostlist.Cordon(v.Node, v.Host)
	}
	for _, do := range Advice(v.Kind, text, where.Bare) {
		if aloneElsewhere(do) && where.Remote {
			if v.hosts || v.Host == "" {
				continue
			}
			do = strings.Replace(do, "mpiup run -n 1", "mpiup run --host "+v.Host+" -n 1", 1)
		}
		if !slices.Contains(v.Advice, do) {
			v.Advice = append(v.Advice, do)
		}
	}
	if v.Kind == MPIError && strings.Contains(text, "MPID_Comm_spawn_multiple(") {
		v.Note(noteSpawn)
	}
}

// Where names what the sentences do not: the node, the process, the device.
func (v Verdict) Where() string {
	var parts []string
	add := func(what, name string) {
		if name != "" {
			parts = append(parts, what+" "+name)
		}
	}
	add("node", v.Node)
	if v.PID > 0 {
		add("pid", fmt.Sprint(v.PID))
	}
	add("GPU", v.GPU)
	add(map[bool]string{false: "PCI", true: "its GPU is at PCI"}[v.GPU == "" && strings.HasPrefix(string(v.Kind), "gpu-")], v.PCI)
	add("adapter", v.HCA)
	return strings.Join(parts, ", ")
}

// plain is a sentence of the page as a line of mpiup's: without marks, and as the part of a sentence that it is there.
func plain(text string) string {
	text = strings.TrimSuffix(strings.ReplaceAll(text, "`", ""), ".")
	if first, rest, ok := strings.Cut(text, " "); ok && first != strings.ToUpper(first) && strings.ToLower(first[1:]) == first[1:] {
		return strings.ToLower(first) + " " + rest
	}
	return text
}
