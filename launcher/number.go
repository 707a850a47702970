package launcher

import (
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/incarnation"
	"github.com/mpiup/mpiup/launcher/reach"
)

// number is this incarnation's fencing number: the one it has, or the next after all that any
// reached agent knows. Agents may lie: only what we said ourselves is our own, and of the others' word a number comes that no
// agent refuses; how far it is above what they know is bounded by each for itself (agent/lives).
func number(hosts []reach.Found, said func(number uint64, proof []byte) bool) uint64 {
	var own, highest uint64
	for _, h := range hosts {
		o := h.Session.Opened
		highest = max(highest, min(o.HighestNumber, incarnation.MaxNumber-1))
		if o.OwnNumber > own && o.OwnNumber <= incarnation.MaxNumber && said(o.OwnNumber, o.OwnProof) {
			own = o.OwnNumber
		}
	}
	if own > 0 {
		return own
	}
	return highest + 1
}

// said tells whether a launcher of this incarnation, which is one of our container, has signed a number.
func (r *planner) said(number uint64, proof []byte) bool {
	if r.cfg.Identity == nil { // no agent but our own
		return true
	}
	kind, text := incarnation.NumberClaim(number, r.cfg.Incarnation)
	who, err := r.cfg.Identity.Verify(kind, text, proof)
	return err == nil && identity.Require(who, identity.RoleLauncher) == nil
}

// prove signs the number. Without a signature other agents are not told of it, which only a launcher that comes
// after us and reaches none of ours could miss.
func (r *planner) prove() []byte {
	if r.cfg.Identity == nil {
		return nil
	}
	kind, text := incarnation.NumberClaim(r.number, r.cfg.Incarnation)
	proof, err := r.cfg.Identity.Sign(kind, text)
	if err != nil {
		r.cfg.Log.Info("the number is not signed", "cause", err)
	}
	return proof
}
