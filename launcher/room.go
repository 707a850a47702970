package launcher

import "time"

// roomWait is how long an ask that finds no room waits for it. Slots are free when processes have
// ended, which is a little after they have disconnected from their parents: a rank that spawns again
// at once would be refused.
const roomWait = time.Second

// awaitRoom says whether an ask that found no room is to wait: once, while spawned processes run.
func (r *run) awaitRoom(a *ask) bool {
	if a.waited || !r.spawnedRun() {
		return false
	}
	if !a.cramped {
		a.cramped = true
		r.timers.room.Reset(roomWait)
	}
	return true
}

func (r *run) spawnedRun() bool {
	for id := r.jobs[0].size(); id < len(r.ranks); id++ {
		if r.ranks[id].state == rankRunning {
			return true
		}
	}
	return false
}

// roomCame is called when a process has ended.
func (r *run) roomCame() {
	if len(r.asks) > 0 && r.asks[0].cramped {
		r.serveAsks()
	}
}

// roomLate is called when the wait is over.
func (r *run) roomLate() {
	if len(r.asks) > 0 && r.asks[0].cramped {
		r.asks[0].waited = true
		r.serveAsks()
	}
}
