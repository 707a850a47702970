package ranks

import (
	"fmt"

	"github.com/mpiup/mpiup/agent/gloo"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/frameworks"
)

// rendezvous is where a job's Horovod ranks meet, at their own agent: a port each. nil: Horovod is told nothing.
type rendezvous struct{ *gloo.Server }

func newRendezvous(st *Job) *rendezvous {
	l := st.Launch
	if frameworks.Set(l.Job.Meeting.GetFrameworks())&frameworks.Horovod == 0 || l.Exec != nil || len(l.Procs) == 0 {
		return nil
	}
	return &rendezvous{gloo.New(gloo.Config{
		Check: st.maySpeak, Log: st.s.Log,
		Send: func(u gloo.Update) {
			if l.Job.Hosts > 1 {
				st.send((&apiv1.Rendezvous{
					Job: l.Job.Number, Scope: u.Scope, Epoch: u.Epoch, Rank: uint32(u.Rank), Key: u.Key, Value: u.Value, Done: u.Done}).Frame())
			}
		},
		Full: func(err error) { st.s.Notice(true, "%v", err) },
	})}
}

// open gives the ranks their ports where a program may use them: the user said so, or its Python has Horovod.
func (r *rendezvous) open(st *Job, dirs []string) error {
	l := st.Launch
	if r == nil || frameworks.Set(l.Job.Meeting.GetFrameworks())&frameworks.HorovodGloo == 0 && !hasHorovod(st, dirs) {
		return nil
	}
	if err := r.Open(st.RanksHere()); err != nil {
		return fmt.Errorf("a port for Horovod's rendezvous: %w", err)
	}
	st.wg.Go(func() { r.Run(st.ctx) })
	return nil
}

// hasHorovod says that a program of the job here runs a Python that has Horovod.
func hasHorovod(st *Job, dirs []string) bool {
	asked := make([]bool, len(st.Launch.Apps)) // each program once, however many ranks it has
	for _, p := range st.Launch.Procs {
		if !asked[p.App] && st.choice(int(p.App), dirs[p.App]).Horovod {
			return true
		}
		asked[p.App] = true
	}
	return false
}

// port is a rank's; 0: it has none.
func (r *rendezvous) port(rank uint32) uint16 {
	if r == nil {
		return 0
	}
	return r.Port(int(rank))
}

// met says that a rank has been there.
func (r *rendezvous) met(rank uint32) bool { return r != nil && r.Met(int(rank)) }

// Rendezvous takes what Horovod's ranks on another host put.
func (st *Job) Rendezvous(m *apiv1.Rendezvous) {
	if st.horovod != nil {
		st.horovod.Apply(gloo.Update{Scope: m.Scope, Epoch: m.Epoch, Rank: int(m.Rank), Key: m.Key, Value: m.Value, Done: m.Done})
	}
}
