package logs

import (
	"slices"
	"strings"

	"github.com/mpiup/mpiup/internal/pattern"
	"github.com/mpiup/mpiup/launcher/verdict"
)

// What takes a finding back: the program caught it, what was awaited came, or the job went on.
var (
	caught = []string{"skipping batch", "retrying batch", "retrying with", "trying again", "resuming normal operation", "reducing batch size",
		"batch size was reduced",
		"will be retried", "falling back to", "continuing anyway", "continue training", "ignoring this", "recovered from",
		"exit code:    0",                // kubectl describe's, of a container of which it has said how it ended
		"[service thread] accept failed"} // NCCL's, of whoever else came to its port, as scanners do
	came     = []string{"Successfully assigned", "Started container", "Successfully pulled image", "already present on machine"}
	restarts = []string{"will restart worker group", "Restarting worker group", "Restarting job", "starting the ranks again"}
	progress = pattern.Of(`(?i)\b(?:epochs?|time-?steps?|steps?|iterations?|iters?|global_step|loss|num_updates|samples/sec|images/sec|tokens/s|eta)\b[^a-z]{0,12}\d|\d+/\d+ \[(?:\d+:\d\d|[=>.])|` +
		`^Time = \d|^\d+(?:\s+[-+.\deE]+)+$`)
	// The end of a job that went well, by the words of those that end one. A number of ranks tells that they have met.
	ended = pattern.With("success|normal|complete|finish|done|error|finali|wall time|loop time|avg bus|exit|ending|result", // of which a line must have one
		`(?i)\b(?:completed|finished|terminated|ended|exited|done) (?:successfully|normally|without errors?)\b|`+
			`\bsuccessfully (?:completed|finished|terminated)\b|`+
			`\b(?:simulation|training|job|run|program|benchmark|calculation) (?:is |has |was )?(?:now )?(?:completed?|finished|done|successful)\b|`+
			`\bnormal (?:termination|end)\b|\bsuccess complete\b|^JOB DONE\.?$|^Finali[sz]ing parallel run|^Total wall time:|^Loop time of \d|^# Avg bus bandwidth|^ENDING TIMING RUN AT|^RESULT,[A-Z]|exit(?:ed with)?(?: code| status)?:? 0$`)
	met = pattern.With("hello|process|proc |proc:|proc#|rank|task|        ",
		`(?i)^\W*hello\b.*\d|^\d+ {8,}\d+\.\d\d$|\b(?:process|processor|proc|rank|task) ?#?:? *\d+ (?:of|out of|/) *\d+\b`)
	isBad   = pattern.Of(`(?i)\b(?:but|not|un\w+|without success|fail\w*|error\w*|abort\w*|killed|timed? ?out)\b`)
	initing = "Init COMPLETE"                        // NCCL
	noCUDA  = "not interested in CUDA-aware support" // Open MPI's help-mpi-common-cuda.txt, after the libraries that it looked for

	// A test that went well: its own word, Catch's, netCDF's, MPICH's.
	passed = pattern.With("passed|tests succ|errors", `\bPASSED\b|\b(?:All tests passed|Tests successful)\b|^\W*No Errors$`)
)

const (
	outlives = 3  // lines of progress after which a program has outlived what it wrote
	together = 10 // and after which all ranks have, whoever wrote those lines
	handles  = 3  // lines in which it says that it handled something
)

// meets says that a failure of a kind is one of meeting: ranks that have met show that there was none.
func meets(k verdict.Kind) bool {
	switch k {
	case verdict.InitFailed, verdict.Mismatch, verdict.MissingLibrary, verdict.Network, verdict.DNS, verdict.Identity, verdict.HostsMissing, verdict.FabricError, verdict.FabricDown,
		verdict.LockedMemory, verdict.NCCL, verdict.PeerLost, verdict.ProgramNotFound:
		return true
	}
	return false
}

const maxRecent = 12

// remember keeps a line as one of the latest.
func (h *heard) remember(text string) {
	h.before = text
	if len(h.recent) == maxRecent {
		h.recent = append(h.recent[:0], h.recent[1:]...)
	}
	h.recent = append(h.recent, cut(text))
}

var (
	// The launchers' own words, and what MPI libraries say around an abort.
	boiler = []string{"-----", "=====", "MPI_ABORT was invoked", "MPI_Abort", "with errorcode", "NOTE: invoking", "You may or may not see", "exactly when",
		"Primary job", "a non-zero exit code",
		"mpirun", "mpiexec", "srun:", "slurmstepd", "prterun", "Process name:", "Exit code:", "aborting job", "BAD TERMINATION", "EXIT CODE", "CLEANING UP",
		"YOU CAN IGNORE", "Abort(", "In: PMI_Abort",
		"user-direction", "mpiup: ", "NCCL INFO", "Warning:", "WARNING", "help message", "Proc: [", "Errorcode:", "root cause", "local_rank",
		"torch.distributed.elastic"}
	reasons = pattern.Of(`(?i)\b(?:error|fatal|fail(?:ed|ure)?|cannot|can't|could not|couldn't|unable|invalid|exception|not found|no such|missing|illegal|out of|must|stop(?:ped|ping)?|abort(?:ed|ing)?|unknown|exceed(?:s|ed)?)\b`)
)

// reason is what the program itself said before it ended: its last line that sounds like one.
func (h *heard) reason() []string {
	if h == nil {
		return nil
	}
	for _, text := range slices.Backward(h.recent) {
		if len(text) > 3 && reasons().MatchString(text) && !slices.ContainsFunc(boiler, func(b string) bool { return strings.Contains(text, b) }) {
			return []string{text}
		}
	}
	return nil
}

// What a logger writes above the traceback of an exception that ended nothing: it is tried again, or nobody waits for it, or the work was done.
var shrugs = pattern.With("heartbeat|communicat|retriev|retry|future: |handle: |atexit|callback|logging error|closing|shutdown|cleanup",
	`(?i)\bheartbeat|\bfailed to communicate\b|exception was never retrieved|^(?:future: <(?:Task|Future)|handle: <)|\bretry(?:ing)?\b|`+
		`error in atexit|exception in callback|^-+ logging error -+$|\bwhile closing\b|\b(?:during|on|at|in) (?:shutdown|cleanup)\b`)

// shrugged notes whether the lines above a traceback tell that its exception ended nothing.
func (h *heard) shrugged() {
	chained := strings.HasPrefix(h.before, "The above exception was the direct cause") || strings.HasPrefix(h.before, "During handling of the above exception")
	h.shrug = h.shrug && chained || shrugged(h.before)
}

// shrugged says that a line tells of an error which ended nothing.
func shrugged(text string) bool {
	return shrugs.Match(text) && !slices.ContainsFunc(lastTries, func(s string) bool { return strings.Contains(text, s) })
}

var lastTries = []string{"iving up", "xceeded", "xhausted", "imit", "fter", "ailed to retry"}
