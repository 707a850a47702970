package agent

import (
	"cmp"
	"path"
	"slices"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// maxUses bounds what an agent tells of what it runs.
const maxUses = 32

// uses is what launchers run here, the oldest first: whose it is, its program's file name without arguments, how many
// processes, and since when.
func (a *Agent) uses() (list []*apiv1.Use) {
	a.mu.Lock()
	all := make([]*session, 0, len(a.sessions))
	for _, s := range a.sessions {
		all = append(all, s)
	}
	a.mu.Unlock()
	for _, s := range all {
		if u := s.use(); u != nil {
			list = append(list, u)
		}
	}
	slices.SortFunc(list, func(a, b *apiv1.Use) int {
		return cmp.Or(cmp.Compare(a.SinceNs, b.SinceNs), cmp.Compare(a.Launcher, b.Launcher))
	})
	return list[:min(len(list), maxUses)]
}

// use is what the session runs; nil: nothing.
func (s *session) use() *apiv1.Use {
	u := &apiv1.Use{Launcher: s.launcher.Host}
	for _, st := range s.steps() {
		if n := st.live(); n > 0 {
			if u.Procs == 0 {
				u.Program, u.SinceNs, u.Exec = programOf(st.launch), st.since.UnixNano(), st.launch.Exec != nil
			}
			u.Procs += uint32(n)
		}
	}
	if u.Procs == 0 {
		return nil
	}
	return u
}

// programOf is the file name of a launch's first program here.
func programOf(l *apiv1.Launch) string {
	if l.Exec.GetShell() || len(l.Apps) == 0 {
		return "shell"
	}
	app := uint32(0)
	if len(l.Procs) > 0 {
		app = l.Procs[0].App
	}
	name := path.Base(l.Apps[app].Argv[0])
	const most = 64
	return name[:min(len(name), most)]
}

// helloWithUses is hello for who asks what runs here.
func (a *Agent) helloWithUses() *apiv1.HelloReply {
	h := a.hello()
	h.Uses = a.uses()
	return h
}
