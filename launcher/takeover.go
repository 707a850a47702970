package launcher

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/secret"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
	"github.com/mpiup/mpiup/launcher/reach"
	"github.com/mpiup/mpiup/launcher/run/phases"
)

// A run with --on-launcher-loss hold outlives its launcher. Once all ranks run, each agent has a journal of it (phases.Journal), which
// the launcher has signed. The next launcher with the same command is told of it when it opens a session there, takes over the
// sessions that the journal names, and goes on with a launcher/run that begins by what the agents tell it again.

// predecessor is what a launcher has from the one before it.
type predecessor struct {
	journal *phases.Journal
	gone    map[string]*link.Cause // hosts that were not handed over, by name: why
	taken   []time.Time            // when each host was handed over, or given up
	settled time.Time              // when all were
}

// at turns the age that a host states into a time on the run's clock. The clock stood at before when all hosts were settled. A host
// counts an age up to its own handover, and hosts are handed over one after the other. So ends on two hosts are ordered to
// milliseconds. What a host tells later has no age: it is new.
func (h *predecessor) at(host int, said time.Duration) (at time.Duration, known bool) {
	if h == nil || said == 0 || host >= len(h.taken) {
		return 0, false
	}
	return max(before-h.settled.Sub(h.taken[host])-said, 1), true
}

// anyNumber is where this launcher begins to count its questions. It is random, so that no earlier launcher used these numbers.
func anyNumber() uint64 {
	var b [8]byte
	rand.Read(b[:])
	return binary.BigEndian.Uint64(b[:]) >> 1
}

// Command is a run's command line as the next launcher must have it too: without what becomes of the ranks when a launcher is lost.
type Command struct {
	Words []string
	Text  string // as people read it
}

// digest is what two launchers compare.
func (c *Command) digest() []byte {
	h := sha256.New()
	for _, w := range c.Words {
		fmt.Fprintf(h, "%d %s\n", len(w), w)
	}
	return h.Sum(nil)
}

// onLoss is what agents are to do when this launcher is lost.
func (c *Config) onLoss() apiv1.Loss {
	switch {
	case c.Loss.Hold > 0:
		return apiv1.Loss_LOSS_HOLD
	case c.Loss.Said:
		return apiv1.Loss_LOSS_FENCE
	}
	return apiv1.Loss_LOSS_UNSAID
}

// outlived refuses what cannot outlive its launcher.
func (c *Config) outlived() error {
	switch {
	case c.Loss.Hold == 0:
		return nil
	case c.StdinTarget != "none" && c.Stdin != nil && !isNull(c.Stdin):
		return reach.Failf(job.ExitUsage, "--on-launcher-loss hold: another launcher cannot read on where this one's "+
			"standard input ends; add < /dev/null, or --stdin none")
	case c.Elastic.On():
		return reach.Failf(job.ExitUsage, "--on-launcher-loss hold: the hosts of an elastic job change, and the next "+
			"launcher would not know those that came; leave out one of --min-np and hold")
	case c.Nodes > 1:
		return reach.Failf(job.ExitUsage, "--on-launcher-loss hold: each host starts ranks of its own; leave it out, or start all from one host")
	}
	return nil
}

// apart refuses hosts whose ranks would be this very process's children.
func apart(found []reach.Found) error {
	for _, f := range found {
		if f.Embedded() {
			return reach.Failf(job.ExitUsage, "--on-launcher-loss hold: ranks on %s, this very host, would end with the launcher: "+
				"leave it out of the hosts, or run `mpiup agent` here", f.Entry.Name)
		}
	}
	return nil
}

// holds takes a host's word that it holds runs whose launcher is lost.
func (r *planner) holds(held *reach.Held) (next phases.Order, err error) {
	var runs []phases.Held
	for _, h := range held.Runs {
		if err := r.believes(h.Hold, held.Host); err != nil {
			return next, err
		}
		runs = append(runs, phases.Held{Launcher: h.Launcher, Command: h.Hold.GetCommand(), Text: h.Hold.GetText(), Taken: h.Taken,
			Left: time.Duration(h.LeftMs) * time.Millisecond})
	}
	r.held = held
	return r.course.Held(held.Host, runs, phases.Held{Command: r.cfg.Command.digest(), Text: r.cfg.Command.Text}, r.cfg.Loss.Hold > 0), nil
}

// inherit takes over a run whose launcher is lost, of those that a host holds.
func (r *planner) inherit(ctx, life context.Context, at int, o *reach.Opener) (found []reach.Found, next phases.Order, err error) {
	of := r.held.Runs[at]
	j, err := r.read(of, r.held)
	if err != nil {
		return nil, next, err
	}
	r.say("taking over from launcher %s, which is lost: %s on %s", of.Launcher, visible.Count(len(j.Plan.Placements), "rank"), visible.Count(len(j.Hosts), "host"))
	r.enter("taking over")
	o.Run, r.predecessor = j.Run, &predecessor{journal: j, gone: map[string]*link.Cause{}, taken: make([]time.Time, len(j.Hosts))}
	found, any, first := r.adopt(ctx, life, o)
	if first != nil {
		reach.CloseAll(found) // without a word: the ranks wait, and the other takes these too
		f := reach.Failf(job.ExitPreempted, "%v: it was there first, and this launcher ends", first)
		f.Outrun = true
		return nil, next, f
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(r.predecessor.gone)) {
		lines = append(lines, fmt.Sprintf("host %s was not handed over: %v", name, r.predecessor.gone[name]))
	}
	if next = r.course.Adopted(any, ctx.Err() != nil, j.Restarts, of.Launcher, lines[:min(len(lines), 5)]); any {
		r.plan, r.begun = j.Plan, j.Begun
		r.remains.Takes(j.Begun, j.Left, j.Spent)
		r.settle(j)
	} else {
		r.predecessor = nil
	}
	return found, next, nil
}

// settle notes the hosts of a run that was taken over. Where ranks start again they are found as the command line says: a pod that was
// made anew has another address.
func (r *planner) settle(j *phases.Journal) {
	known := r.course.Known
	r.course.Known, r.sites, r.wanted = nil, nil, map[string]hosts.Wanted{}
	for _, s := range j.Sites {
		w := s.Wanted()
		r.wanted[s.Name], r.sites = w, append(r.sites, s)
		if at := slices.IndexFunc(known, func(k hosts.Wanted) bool { return k.Entry.Name == s.Name && !k.Bare }); at >= 0 {
			w = known[at]
		}
		r.course.Known = append(r.course.Known, w)
	}
	r.enter("launching")
}

// CommandOf is what launchers compare of a command line, of whose words the first so many are flags of mpiup's.
func CommandOf(words []string, flags int) Command {
	const flag, most = "--on-launcher-loss", 2000 // bytes
	var kept []string
	for i := 0; i < len(words); i++ {
		switch {
		case i < flags && words[i] == flag:
			i++
		case i < flags && strings.HasPrefix(words[i], flag+"="):
		default:
			kept = append(kept, words[i])
		}
	}
	text := strings.Join(secret.MaskCommand(kept), " ") // agents keep it, and other launchers are shown it
	if len(text) > most {
		text = text[:most] + "..."
	}
	return Command{Words: kept, Text: text}
}
