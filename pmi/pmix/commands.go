package pmix

import (
	"context"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// command is a row of the table: a request's number is its place.
type command struct {
	name   string
	handle func(c *conn, ctx context.Context, r *bfrops.Reader) (*bfrops.Writer, error)
	waits  bool                 // it may block, and has a goroutine of its own
	large  bool                 // its answer may be large: handle takes the connection's turn before it makes one
	silent bool                 // it has no answer
	tail   func(*bfrops.Writer) // what follows an answer's status where that is not 0
}

// commands are pmix_cmd_t of openpmix src/include/pmix_globals.h. handle returns the answer, or a
// status that is the answer by itself.
var commands = [...]command{
	0:  {name: "REQ", handle: (*conn).req},
	1:  {name: "ABORT", handle: (*conn).abort},
	2:  {name: "COMMIT", handle: (*conn).commit},
	3:  {name: "FENCE", handle: (*conn).fence, waits: true},
	4:  {name: "GET", handle: (*conn).get, waits: true, large: true},
	5:  {name: "FINALIZE", handle: (*conn).finalize},
	6:  {name: "PUBLISH", handle: (*conn).publish, waits: true},
	7:  {name: "LOOKUP", handle: (*conn).lookup, waits: true, large: true},
	8:  {name: "UNPUBLISH", handle: (*conn).unpublish, waits: true},
	9:  {name: "SPAWN", handle: (*conn).spawn, waits: true, tail: noNamespace},
	10: {name: "CONNECT", handle: (*conn).connect, waits: true},
	11: {name: "DISCONNECT", handle: (*conn).disconnect, waits: true},
	12: {name: "NOTIFY", handle: (*conn).notify},
	13: {name: "REGEVENTS", handle: (*conn).register},
	14: {name: "DEREGEVENTS", handle: (*conn).deregister, silent: true},
	15: {name: "QUERY", handle: (*conn).query, tail: noInfos},
	16: {name: "LOG", handle: (*conn).log},
	17: {name: "ALLOC", handle: refuse, tail: noInfos},
	18: {name: "JOB_CONTROL", handle: (*conn).jobControl, tail: noInfos},
	19: {name: "MONITOR", handle: refuse, tail: noInfos},
	24: {name: "GROUP_CONSTRUCT", handle: (*conn).groupConstruct, waits: true, large: true},
	25: {name: "GROUP_JOIN", handle: refuse}, // clients use events for this and the next
	26: {name: "GROUP_INVITE", handle: refuse},
	27: {name: "GROUP_LEAVE", handle: refuse}, // openpmix's own server says the same
	28: {name: "GROUP_DESTRUCT", handle: (*conn).groupDestruct, waits: true},
}

var unknown = command{name: "an unknown command", handle: refuse}

// reserved are requests that are refused without a word: those that no rank of an MPI job sends (credentials,
// other processes' input and output, fabrics and distances of devices), and RESOLVE_PEERS and RESOLVE_NODE, after
// which libpmix 6 and later find the same in the job data, as earlier ones do at once.
var reserved = map[uint64]bool{20: true, 21: true, 22: true, 23: true, 29: true, 30: true, 31: true, 32: true, 37: true, 38: true}

func find(number uint64) *command {
	if number < uint64(len(commands)) && commands[number].handle != nil {
		return &commands[number]
	}
	return &unknown
}

// maxUnheard bounds the sentences about requests that nobody here has heard of.
const maxUnheard = 4

// unheard tells the user, once for each of them, of a request that is of a later PMIx than this server.
func (c *conn) unheard(number uint64) {
	s := c.s
	s.mu.Lock()
	known := reserved[number] || s.unheard[number] || len(s.unheard) >= maxUnheard
	if !known {
		s.unheard[number] = true
	}
	s.mu.Unlock()
	if !known {
		s.notice("PMIx %.40q of a rank sent request %d, which mpiup does not know, and was told that it is not supported; if the program fails over it, use a newer mpiup, or an Open MPI with PMIx 3.1 to 7.0", printable(c.version), number)
	}
}

func refuse(*conn, context.Context, *bfrops.Reader) (*bfrops.Writer, error) {
	return nil, errNotSupported
}

func noNamespace(w *bfrops.Writer) { w.Group(bfrops.String, nil) }
func noInfos(w *bfrops.Writer)     { w.Infos(nil) }
