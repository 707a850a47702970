package pmix

import (
	"context"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/mpiup/mpiup/pmi/loopback"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/pmi/pmix/leftover"
)

// abort is MPI_Abort; the process ends by itself once it has the answer. One that names others only
// goes on: MPI libraries do not, but clients that call PMIx_Abort may.
func abort(ctx context.Context, c *conn, r *bfrops.Reader) (*bfrops.Writer, error) {
	code := bfrops.One[int64](r, bfrops.Status)
	text := bfrops.One[string](r, bfrops.String)
	procs := bfrops.Counted[bfrops.Proc](r, bfrops.ProcType)
	if r.Err() != nil {
		return nil, r.Err()
	}
	all, st := c.host.jobs.partyNow(ctx, c.ns, procs)
	if st != bfrops.Success {
		return nil, st
	}
	var targets []int // nil: the caller's job
	if len(all) != 1 || all[0].ns != c.ns || all[0].ranks != nil {
		targets = all.set().Slice()
	}
	if targets == nil || slices.Contains(targets, c.id()) {
		c.stop() // what follows is no unfinished rank
		c.ns.space.RankGone(c.rank, "has called MPI_Abort")
	}
	if f := c.host.cfg.Hooks.OnAbort; f != nil {
		f(ctx, c.id(), int(code), printable(text), targets)
	}
	return nil, bfrops.Success
}

// jobControl takes registrations of files to remove, all that Open MPI uses it for, and signals to
// processes, which tools send. A file goes only if it is of the user that has made the rank's connection: the agent may be root, and a rank
// not. The rest (checkpoints, provisioning) is not supported.
func jobControl(ctx context.Context, c *conn, r *bfrops.Reader) (*bfrops.Writer, error) {
	procs := bfrops.Counted[bfrops.Proc](r, bfrops.ProcType) // of files whose end counts makes no difference here
	infos := r.Infos()
	if r.Err() != nil {
		return nil, r.Err()
	}
	user := sync.OnceValues(func() (loopback.Peer, error) { return loopback.PeerOf(c.nc) })
	var st error = bfrops.ErrNotSupported
	for _, i := range infos {
		switch i.Key {
		case "pmix.reg.cleanup", "pmix.reg.cleanupdir":
			l := leftover.Extent{
				Dir:     i.Key == "pmix.reg.cleanupdir",
				Recurse: bfrops.IsTrue(infos, "pmix.clnup.recurse"),
				KeepTop: bfrops.IsTrue(infos, "pmix.clnup.lvtop"),
			}
			st = bfrops.Success
			peer, err := user()
			if err != nil { // it stays until the pod ends, then
				c.host.log.Info("PMIx: what a rank names is not removed, since its user is not known", "id", c.id(), "cause", err)
				continue
			}
			for path := range strings.SplitSeq(i.Value.Text(), ",") {
				switch err := c.host.leftovers.Add(c.ns.number, int(peer.UID), path, l); err {
				case leftover.ErrFull:
					return nil, bfrops.ErrOutOfResource
				case leftover.ErrElsewhere: // nothing depends on it: Open MPI names directories outside when it has been given none
					c.host.log.Debug("PMIx: not to be removed", "path", path)
				}
			}
		case anySignal, "pmix.jctrl.kill", "pmix.jctrl.term", "pmix.jctrl.pause", "pmix.jctrl.resume":
			if err := control(ctx, c, procs, i); err != bfrops.Success {
				return nil, err
			}
			st = bfrops.Success
		}
	}
	return nil, st
}

// maxSignal is the last of Linux's signals (SIGRTMAX).
const maxSignal = 64

const anySignal = "pmix.jctrl.sig" // by its number

// signals are those that have an attribute of their own; with end the processes are to end by them.
var signals = map[string]struct {
	signal syscall.Signal
	end    bool
}{
	"pmix.jctrl.kill":   {syscall.SIGKILL, true},
	"pmix.jctrl.term":   {syscall.SIGTERM, true},
	"pmix.jctrl.pause":  {syscall.SIGSTOP, false},
	"pmix.jctrl.resume": {syscall.SIGCONT, false},
}

// control has the processes that a rank lists, or its job, get a signal.
func control(ctx context.Context, c *conn, procs []bfrops.Proc, i bfrops.Info) bfrops.Code {
	want := signals[i.Key]
	if i.Key == anySignal {
		n, ok := i.Value.Number()
		if !ok || n < 1 || n > maxSignal {
			return bfrops.ErrBadParam
		}
		want.signal = syscall.Signal(n)
	} else if !i.Value.True() {
		return bfrops.Success
	}
	f := c.host.cfg.Hooks.OnControl
	if f == nil {
		return bfrops.ErrNotSupported
	}
	all, st := c.host.jobs.partyNow(ctx, c.ns, procs)
	if st == bfrops.Success {
		f(c.id(), all.set().Slice(), int(want.signal), want.end)
	}
	return st
}

// show shows text with the rank's output: Open MPI 5 and later sends its error messages this way.
func show(_ context.Context, c *conn, r *bfrops.Reader) (*bfrops.Writer, error) {
	bfrops.One[uint64](r, bfrops.Time)
	data := r.Infos()
	r.Infos() // directives; every rank's text is shown, as with output
	if r.Err() != nil {
		return nil, r.Err()
	}
	shown := false
	for _, i := range data {
		stderr := i.Key == "pmix.log.stderr"
		text := i.Value.Text()
		if b, ok := i.Value.Data.([]byte); ok {
			text = string(b)
		}
		if !stderr && i.Key != "pmix.log.stdout" || text == "" {
			continue
		}
		shown = true
		c.host.show(c.id(), stderr, text)
	}
	if !shown && len(data) > 0 {
		return nil, bfrops.ErrNotSupported
	}
	return nil, bfrops.Success
}
