package run

// rankState is where a rank is in its life.
type rankState uint8

const (
	rankCreated rankState = iota
	rankRunning
	rankExited
	rankStartFailed
	rankLost // its host was given up
)

// rankEvent moves a rank.
type rankEvent uint8

const (
	rankStarted rankEvent = iota
	rankDidExit
	rankDidNotStart
	rankHostLost
)

// row is one move of a table: what happens, and the state before and after.
type row[E, S comparable] struct {
	event    E
	from, to S
}

// move is the state after e, and whether the table knows that move.
func move[E, S comparable](table []row[E, S], from S, e E) (S, bool) {
	for _, r := range table {
		if r.event == e && r.from == from {
			return r.to, true
		}
	}
	return from, false
}

// rankTable has every move a rank may make. Anything else is a frame out of turn.
var rankTable = []row[rankEvent, rankState]{
	{rankStarted, rankCreated, rankRunning},
	{rankDidNotStart, rankCreated, rankStartFailed},
	{rankDidExit, rankCreated, rankExited}, // stopped before it could report its start
	{rankDidExit, rankRunning, rankExited},
	{rankHostLost, rankCreated, rankLost},
	{rankHostLost, rankRunning, rankLost},
}

func (s rankState) next(e rankEvent) (rankState, bool) { return move(rankTable, s, e) }

// over says that nothing more comes of the rank.
func (s rankState) over() bool { return s >= rankExited }

func (s rankState) String() string {
	return [...]string{"created", "running", "exited", "start-failed", "lost"}[s]
}

// jobState is where the job is.
type jobState uint8

const (
	jobLaunching jobState = iota
	jobWiring
	jobRunning
	jobStopping
	jobDone
)

// jobEvent moves the job.
type jobEvent uint8

const (
	jobStarted jobEvent = iota // every rank runs
	jobWired                   // the first fence of all ranks is through, or none is to come
	jobFailed                  // a fault, a signal or the time limit
	jobEnded                   // every rank is over
)

// jobTable has every move of the job; an event that has no row changes nothing.
var jobTable = []row[jobEvent, jobState]{
	{jobStarted, jobLaunching, jobWiring},
	{jobWired, jobWiring, jobRunning},
	{jobFailed, jobLaunching, jobStopping},
	{jobFailed, jobWiring, jobStopping},
	{jobFailed, jobRunning, jobStopping},
	{jobEnded, jobLaunching, jobDone}, // short programs may end before the last one reports
	{jobEnded, jobWiring, jobDone},
	{jobEnded, jobRunning, jobDone},
	{jobEnded, jobStopping, jobDone},
}

func (s jobState) next(e jobEvent) (jobState, bool) { return move(jobTable, s, e) }

func (s jobState) String() string {
	return [...]string{"launching", "wiring", "running", "stopping", "done"}[s]
}
