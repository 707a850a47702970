package agent

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/pmi"
	"github.com/mpiup/mpiup/pmi/kvs"
	"github.com/mpiup/mpiup/pmi/pmix"
)

// startPMIx serves this host's ranks with PMIx, on a loopback port of this launch's own.
func (st *step) startPMIx() error {
	l := st.launch
	hosts, err := layout(l)
	if err != nil {
		return err
	}
	lis, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	dir, remove := st.s.agent.sessionDir(st.s.id)
	st.pmix, err = pmix.New(pmix.Config{
		Names: st.engine.Names(), Address: lis.Addr().String(), SessionDir: dir,
		Crowded: len(l.Procs) > st.s.agent.cfg.Inventory.CPUs,
		Getenv:  st.userVariable, Check: ownUser, Log: st.s.log,
		Hooks: pmix.Hooks{
			OnInit:     st.pmiState(apiv1.PmiState_PMI_RUNNING),
			OnFinalize: st.pmiState(apiv1.PmiState_PMI_FINALIZED),
			OnAbort:    func(rank, code int, text string, _ []int) { st.aborted(rank, code, text) },
			OnError:    st.pmixError,
			OnLog:      st.logged,
		},
	})
	if err == nil {
		err = st.pmix.Add(pmix.Job{
			Namespace: l.Namespace, Hosts: hosts, Here: int(l.Procs[0].NodeRank), Apps: appsOf(l),
			Universe: int(l.Universe), Mapping: l.Mapping, Engine: st.engine,
		})
	}
	if err != nil {
		lis.Close()
		remove()
		return err
	}
	st.wg.Go(func() {
		defer remove()
		if err := st.pmix.Run(st.ctx, lis); st.ctx.Err() == nil {
			st.s.notice(true, "PMIx ended: %v", err)
		}
		if err := st.pmix.Cleanup(); err != nil {
			st.s.log.Info("what ranks asked to be removed", "cause", err)
		}
	})
	return nil
}

// appsOf is the program of every rank.
func appsOf(l *apiv1.Launch) []int {
	apps := make([]int, l.Size)
	for _, p := range l.Procs {
		apps[p.Rank] = int(p.App)
	}
	for r, app := range l.AppOf {
		apps[r] = int(app)
	}
	return apps
}

// layout is the job's hosts as the launcher states them, checked against what is to start here.
func layout(l *apiv1.Launch) ([]pmix.Host, error) {
	if int(l.Procs[0].NodeRank) >= len(l.Layout) {
		return nil, fmt.Errorf("host %d of a job of %d hosts", l.Procs[0].NodeRank, len(l.Layout))
	}
	hosts := make([]pmix.Host, len(l.Layout))
	total := 0
	for i, h := range l.Layout {
		ranks, err := idset.Parse(h.Ranks)
		if err != nil {
			return nil, fmt.Errorf("ranks of host %d: %w", i, err)
		}
		hosts[i] = pmix.Host{Name: h.Name, Ranks: ranks.Slice()}
		if total += ranks.Len(); total > int(l.Size) {
			return nil, fmt.Errorf("more than %d ranks on the hosts of the job", l.Size)
		}
	}
	here := make([]int, 0, len(l.Procs))
	for _, p := range l.Procs {
		here = append(here, int(p.Rank))
	}
	slices.Sort(here)
	if !slices.Equal(here, hosts[l.Procs[0].NodeRank].Ranks) {
		return nil, errors.New("the ranks to start here are not those the job has here")
	}
	return hosts, nil
}

// pmiState notes how far a rank's library has come: an end without finalize is a failure.
func (st *step) pmiState(s apiv1.PmiState) func(rank int) {
	return func(rank int) {
		if p := st.proc(uint32(rank)); p != nil {
			p.pmi.Store(int32(s))
		}
	}
}

// userVariable is what the user exported for all programs of the launch, else the container's.
func (st *step) userVariable(name string) string {
	var app []string
	if len(st.launch.Apps) > 0 {
		app = st.launch.Apps[0].Env
	}
	for _, list := range [][]string{app, st.s.agent.cfg.Env} {
		for _, kv := range list {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				return v
			}
		}
	}
	return ""
}

// ownUser lets only processes of our own user speak.
func ownUser(c net.Conn) error {
	uid, err := pmi.SocketUID(os.DirFS("/proc"), c)
	if err != nil {
		return err
	}
	if uid != uint32(os.Getuid()) {
		return fmt.Errorf("%s: the connection belongs to uid %d, the ranks to uid %d", c.RemoteAddr(), uid, os.Getuid())
	}
	return nil
}

// pmixError sees to a rank whose PMIx cannot go on. It runs on a connection's goroutine.
func (st *step) pmixError(rank int, err error) {
	var (
		protocol   *pmix.ProtocolError
		refused    *pmix.RefusedError
		unfinished *pmix.UnfinishedError
		gone       *kvs.GoneError
	)
	p := st.proc(uint32(rank))
	switch {
	case st.ctx.Err() != nil || p == nil:
	case errors.As(err, &protocol), errors.As(err, &refused):
		p.fail(err.Error())
	case errors.As(err, &unfinished):
		st.wg.Go(func() { p.wireupFailed(err, []int{rank}) })
	case errors.As(err, &gone):
		st.wg.Go(func() { p.wireupFailed(err, gone.Gone) })
	default:
		st.wg.Go(func() { p.wireupFailed(err, nil) })
	}
}

// maxLogged bounds what the ranks of a launch may have shown by PMIx_Log, in bytes: unlike output
// it waits for no credit.
const maxLogged = 16 << 20

// logged shows what a rank wants shown (PMIx_Log) with its output. The launcher's credit for it
// is more than the pump has out, which it ignores.
func (st *step) logged(rank int, stderr bool, text string) {
	if n := st.logLen.Add(int64(len(text))); n > maxLogged {
		if n-int64(len(text)) <= maxLogged {
			st.s.notice(true, "rank %d logs through PMIx beyond %d MiB for its host's ranks; the rest is not shown", rank, maxLogged>>20)
		}
		return
	}
	o := &apiv1.Output{Rank: st.launch.Base + uint32(rank), Data: []byte(text), Partial: !strings.HasSuffix(text, "\n"), TimeNs: time.Now().UnixNano()}
	if stderr {
		o.Stream = apiv1.Stream_STDERR
	}
	st.s.send(&apiv1.Frame{Body: &apiv1.Frame_Output{Output: o}})
}

// sessionDir makes a directory that ranks of a session may use for files, and returns what
// removes it. A container without a writable one has "".
func (a *Agent) sessionDir(session string) (dir string, remove func()) {
	base := a.cfg.RunDir
	if base == "" {
		base = RunDir(os.TempDir(), os.Getuid())
	}
	dir = filepath.Join(base, "session-"+session)
	if err := os.MkdirAll(dir, 0o700); err == nil {
		err = checkOwned(base)
		if err == nil {
			return dir, func() {
				os.RemoveAll(dir)
				os.Remove(base) // if nothing else is in it
			}
		}
		os.Remove(dir)
	}
	return "", func() {}
}

// openMPIVariables are what scripts of Open MPI's users look at (mpirun-cli.md 3.5).
func openMPIVariables(l *apiv1.Launch, p *apiv1.Proc) []string {
	return []string{
		"OMPI_COMM_WORLD_RANK=" + utoa(p.Rank),
		"OMPI_COMM_WORLD_SIZE=" + utoa(l.Size),
		"OMPI_COMM_WORLD_LOCAL_RANK=" + utoa(p.LocalRank),
		"OMPI_COMM_WORLD_LOCAL_SIZE=" + utoa(uint32(len(l.Procs))),
		"OMPI_COMM_WORLD_NODE_RANK=" + utoa(p.LocalRank),
		"OMPI_UNIVERSE_SIZE=" + utoa(l.Universe),
	}
}
