package pmix

import (
	"context"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// commands are pmix_cmd_t of openpmix src/include/pmix_globals.h. handle returns the answer, or a
// status that is the answer by itself.
var commands = [...]command{
	0:  {name: "REQ", handle: req},
	1:  {name: "ABORT", handle: abort},
	2:  {name: "COMMIT", handle: commit},
	3:  {name: "FENCE", handle: fence, waits: true},
	4:  {name: "GET", handle: get, waits: true, large: true},
	5:  {name: "FINALIZE", handle: finalize},
	6:  {name: "PUBLISH", handle: publish, waits: true},
	7:  {name: "LOOKUP", handle: lookup, waits: true, large: true},
	8:  {name: "UNPUBLISH", handle: unpublish, waits: true},
	9:  {name: "SPAWN", handle: spawnJob, waits: true, tail: noNamespace},
	10: {name: "CONNECT", handle: connect, waits: true},
	11: {name: "DISCONNECT", handle: disconnect, waits: true},
	12: {name: "NOTIFY", handle: raise, holds: true},
	13: {name: "REGEVENTS", handle: register},
	14: {name: "DEREGEVENTS", handle: deregister, silent: true},
	15: {name: "QUERY", handle: query, tail: noInfos},
	16: {name: "LOG", handle: show},
	17: {name: "ALLOC", handle: refuse, tail: noInfos},
	18: {name: "JOB_CONTROL", handle: jobControl, tail: noInfos},
	19: {name: "MONITOR", handle: refuse, tail: noInfos},
	24: {name: "GROUP_CONSTRUCT", handle: constructGroup, waits: true, large: true},
	25: {name: "GROUP_JOIN", handle: refuse}, // clients use events for this and the next
	26: {name: "GROUP_INVITE", handle: refuse},
	27: {name: "GROUP_LEAVE", handle: refuse}, // openpmix's own server says the same
	28: {name: "GROUP_DESTRUCT", handle: destructGroup, waits: true},
}

var unknown = command{name: "an unknown command", handle: refuse}

// reserved are requests that are refused without a word: those that no rank of an MPI job sends (credentials,
// other processes' input and output, fabrics and distances of devices), and RESOLVE_PEERS and RESOLVE_NODE, after
// which libpmix 6 and later find the same in the job data, as earlier ones do at once.
var reserved = map[uint64]bool{20: true, 21: true, 22: true, 23: true, 29: true, 30: true, 31: true, 32: true, 37: true, 38: true}

// findCommand is the row of a request.
func (h *host) findCommand(number uint64, version string) *command {
	if number < uint64(len(commands)) && commands[number].handle != nil {
		return &commands[number]
	}
	h.tellUnheard(number, version)
	return &unknown
}

// maxUnheard bounds the sentences about requests that nobody here has heard of.
const maxUnheard = 4

// tellUnheard tells the user, once for each of them, of a request that is of a later PMIx than this server.
func (h *host) tellUnheard(number uint64, version string) {
	h.mu.Lock()
	known := reserved[number] || h.unheard[number] || len(h.unheard) >= maxUnheard
	if !known {
		h.unheard[number] = true
	}
	h.mu.Unlock()
	if !known {
		h.notice("PMIx %.40q of a rank sent request %d, which mpiup does not know, and was told that it is not supported; if "+
			"the program fails over it, use a newer mpiup, or an Open MPI with PMIx 3.1 to 7.0", printable(version), number)
	}
}

// req answers with the job data, which every rank of a job and a dialect gets alike.
func req(_ context.Context, c *conn, _ *bfrops.Reader) (*bfrops.Writer, error) {
	about, err := c.ns.told.packed(toldAs{c.dialect, c.desc, false})
	if err != nil {
		return nil, err
	}
	w := c.writer()
	w.Raw(about)
	return w, nil
}

// finalize leaves the connection open; the client closes it, or initializes again over another.
func finalize(_ context.Context, c *conn, _ *bfrops.Reader) (*bfrops.Writer, error) {
	if c.stop() {
		if f := c.host.cfg.Hooks.OnFinalize; f != nil {
			f(c.id())
		}
	}
	return nil, bfrops.Success
}

func refuse(context.Context, *conn, *bfrops.Reader) (*bfrops.Writer, error) {
	return nil, bfrops.ErrNotSupported
}

func noNamespace(w *bfrops.Writer) { w.Group(bfrops.String, nil) }
func noInfos(w *bfrops.Writer)     { w.Infos(nil) }
