package agent

import (
	"time"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// An MPI library that does not understand what it was offered runs each rank alone, as rank 0 of 1,
// and nothing fails. So a rank that ends well without ever having spoken is told of with the MPI
// library it had. A program that surely loads one shows it; of others (an interpreter that may
// or may not import it) the memory map says, while they run: a zombie has none any more. Ranks that
// end before the first look and do not show a library are not told of.

// unspokenAfter are the times after the start at which ranks that have not spoken are looked at.
var unspokenAfter = []time.Duration{2 * time.Second, 10 * time.Second, 60 * time.Second}

// watchUnspoken looks at the memory maps of ranks that do not speak. It returns when the job ends.
func (st *step) watchUnspoken() {
	var waited time.Duration
	for _, after := range unspokenAfter {
		t := time.NewTimer(after - waited)
		select {
		case <-t.C:
		case <-st.ctx.Done():
			t.Stop()
			return
		}
		waited = after
		for _, p := range st.all() {
			if p.mute() && p.mapped.Load() == nil {
				if library := st.s.agent.libs.Mapped(p.process.Pid()); library != "" && p.mute() {
					p.mapped.Store(&library)
				}
			}
		}
	}
}

// mute says that a process has not spoken, and still may.
func (p *proc) mute() bool {
	select {
	case <-p.process.Done():
		return false
	default:
		return apiv1.PmiState(p.pmi.Load()) == apiv1.PmiState_PMI_NEVER
	}
}

// unspoken is the MPI library of a rank that has ended well and never spoke; "" if there is none
// to be seen.
func (p *proc) unspoken() string {
	if p.step.launch.Explain > 0 {
		return "" // no program ran
	}
	st := p.step
	if st.launch.Size < 2 || st.protocolOf(p.spec.App) == apiv1.Pmi_PMI_NONE || apiv1.PmiState(p.pmi.Load()) != apiv1.PmiState_PMI_NEVER {
		return ""
	}
	if seen := p.mapped.Load(); seen != nil {
		return *seen
	}
	if c := st.library(int(p.spec.App), p.dir); c.Sure {
		return c.Library
	}
	return ""
}
