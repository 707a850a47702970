package report

import (
	"slices"
	"time"

	"github.com/mpiup/mpiup/launcher/hours"
	"github.com/mpiup/mpiup/launcher/placement"
	"github.com/mpiup/mpiup/launcher/run/model"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// A Report is what remains of a run: what was to happen, what did, and how it ended, in a form that outlives
// the pods.
//
//	events, plan, ends of outputs ──▶ Recorder ──Report──▶ JSON, a file of a folder ──Read──▶ Timeline   for a person
//
// Values of variables that may be secrets, and secrets that show themselves in text, are masked as they
// are noted. What is too much is left out, and the report says how much.
//
// A Recorder has no files, no clock and no goroutine; its callers take turns. It does not decide what is worth telling,
// and writes nothing by itself.

// Version is that of the form, in Report.Version.
const Version = 1

// Bounds of what is kept.
const (
	maxEvents   = 4000    // the first and the last half of them
	maxText     = 512     // bytes of an event's text and of a line
	maxVariable = 4 << 10 // bytes of a variable's value
	maxRanks    = 8 << 10
	maxPrograms = 256
	maxRestarts = 64        // the first
	maxGPUs     = 1 << 10   // of a host
	maxLines    = 10        // of a rank's output
	maxChanges  = 128 << 10 // of all rows
	maxCurves   = 64
	maxPoints   = 500      // of a curve
	maxMemory   = 16 << 10 // points of all hosts' memory
	maxWaits    = 64       // the first
	maxPhases   = 512      // the first
)

// Report is what remains of one run.
type Report struct {
	Mark     string           `json:"mark"` // Mark, the first of all
	Version  int              `json:"version"`
	Mpiup    string           `json:"mpiup"` // the build that ran it
	Job      string           `json:"job"`   // MPIUP_JOB_ID
	Command  []string         `json:"command"`
	Launcher string           `json:"launcher"` // the launcher's host
	Begun    time.Time        `json:"begun"`
	Ended    time.Time        `json:"ended"`
	ExitCode int              `json:"exit_code"`
	Verdict  *verdict.Verdict `json:"verdict,omitempty"` // absent: all went well
	Hosts    []Host           `json:"hosts"`
	Machines []Machine        `json:"machines,omitempty"` // of hosts, each kind once
	Restarts []Restart        `json:"restarts,omitempty"` // of the ranks; Ranks are those of the last time
	Ranks    []Rank           `json:"ranks"`
	Programs []Program        `json:"programs"`
	Events   []Event          `json:"events"`
	Spent    []hours.Spent    `json:"spent,omitempty"` // where the ranks' time went
	Course
	Dropped int `json:"dropped_events,omitempty"` // between the first and the last half
}

// Course is what went on, over the run's seconds.
type Course struct {
	Phases []Phase `json:"phases,omitempty"` // of the run, the first maxPhases
	Rows   []Row   `json:"rows,omitempty"`   // what each rank did, in the order of Ranks
	Curves []Curve `json:"curves,omitempty"` // what --watch read
	Memory []Curve `json:"memory,omitempty"` // bytes that each host's container used
	Waits  []Wait  `json:"waits,omitempty"`  // who the others waited for (--watch-ranks)
}

// Started says that a rank of the run was started.
func (r *Report) Started() bool {
	return slices.ContainsFunc(r.Ranks, func(p Rank) bool { return p.PID != 0 })
}

// Host is a host of the run as its agent stated itself.
type Host struct {
	Name     string    `json:"name"`
	Node     string    `json:"node,omitempty"` // of Kubernetes
	Address  string    `json:"address,omitempty"`
	Arch     string    `json:"arch,omitempty"`
	Agent    string    `json:"agent,omitempty"` // version
	Slots    int       `json:"slots,omitempty"`
	CPUs     int       `json:"cpus,omitempty"`
	GPUs     int       `json:"gpus,omitempty"`
	Answered time.Time `json:"answered,omitzero"` // when its agent said that it takes part
	Machine  int       `json:"machine,omitempty"` // 1 + index in Report.Machines; 0: not told
}

// Restart is one time that the ranks were started again.
type Restart struct {
	At       float64          `json:"at"`             // seconds since the run began
	Kind     verdict.Kind     `json:"kind,omitempty"` // empty: hosts had come
	Why      string           `json:"why"`
	Pause    float64          `json:"pause_s,omitempty"`
	Ranks    int              `json:"ranks"` // that were started
	Replaced []model.Replaced `json:"replaced,omitempty"`
}

// Rank is one process of the run, and what it wrote last.
type Rank struct {
	Job     int             `json:"job,omitempty"` // 0: the command line's
	Rank    int             `json:"rank"`
	Host    string          `json:"host"`
	Program int             `json:"program,omitempty"` // index in Report.Programs
	CPUs    string          `json:"cpus,omitempty"`    // that it was bound to
	Seat    *placement.Seat `json:"seat,omitempty"`    // nil: not told
	PID     int             `json:"pid,omitempty"`
	End     string          `json:"end,omitempty"`    // "exit code 3", "signal 9 (SIGKILL)", LostWithHost; "" while it runs
	Last    []string        `json:"last,omitempty"`   // lines
	Stream  string          `json:"stream,omitempty"` // "stderr" or "stdout": where it wrote them; "": not told
}

// LostWithHost is the end of a rank whose host is lost.
const LostWithHost = "lost with its host"

// Program is a program of the run. Env is what the user gave its ranks beside the container's own, with secrets masked.
type Program struct {
	Argv []string `json:"argv"`
	Env  []string `json:"env,omitempty"`
}

// Event is something that happened. At is seconds since the run began.
type Event struct {
	At    float64 `json:"at"`
	Kind  string  `json:"kind"`
	Host  string  `json:"host,omitempty"`
	Ranks string  `json:"ranks,omitempty"` // "0-7"
	Text  string  `json:"text,omitempty"`
}

// Row is what one process did, of all attempts: from At[i] on, in seconds since the run began, what Did[i] says. Changes within Slot
// seconds are one.
type Row struct {
	Job  int       `json:"job,omitempty"`
	Rank int       `json:"rank"`
	Host string    `json:"host"`
	At   []float64 `json:"at"`
	Did  string    `json:"did"`
	Slot float64   `json:"slot_s,omitempty"`
}

// The letters of Row.Did.
const (
	Starts = 's' // started; nothing is known of it yet
	Works  = 'w' // output, I/O, bytes of its sockets, pages, a GPU, a word to PMI
	Busy   = 'b' // it uses a CPU, and shows nothing else
	Idle   = 'i' // it waits
	Over   = 'e' // it has ended
	Astray = 'l' // its host is lost, and it with it
)

// Phase is one of hours.Phases that the run has entered.
type Phase struct {
	At    float64 `json:"at"`
	Phase string  `json:"phase"`
}

// Wait is who the others waited for, from a time on.
type Wait struct {
	At    float64 `json:"at"`
	Ranks []int   `json:"ranks,omitempty"` // none: now for one and now for another
	Share float64 `json:"share"`           // of the last window, that the others lost by it
	Cause string  `json:"cause,omitempty"`
	Text  string  `json:"text"` // as it was said
}

// Curve is a value that a rank's lines have told, over the run's seconds; of Memory a host's, with its limit.
type Curve struct {
	Rank   int      `json:"rank"`
	Host   string   `json:"host,omitempty"`
	Limit  Number   `json:"limit,omitempty"`
	Name   string   `json:"name"`
	At     []Second `json:"at"`
	Values []Number `json:"values"`
	Every  int      `json:"every,omitempty"` // so many values of the rank became one; 0: one
}

// Second is a time since the run began, in milliseconds' steps.
type Second float64

// Number is a value; JSON has "NaN", "+Inf" and "-Inf" as texts.
type Number float64

// The kinds of events.
const (
	Found    = "found"    // a host joined the run
	Launched = "launched" // a job's ranks are to be started
	Started  = "started"
	Ended    = "ended"
	Lost     = "lost"     // a host
	Said     = "said"     // mpiup wrote it
	Signal   = "signal"   // the launcher was sent one
	Stopping = "stopping" // the ranks are being ended
	Again    = "again"    // all ranks are to be started again
	Resumed  = "resumed"  // a host of another launcher's run was taken over
)
