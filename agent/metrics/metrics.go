// Package metrics is an agent's HTTP port: health, readiness and what /metrics shows, with the GPUs' use where somebody
// reads it.
//
//	GET /healthz   200 while the process runs
//	GET /readyz    503 once the agent ends
//	GET /metrics   counters of this package, gauges of the functions in Config, the GPU watch's latest report
//
// Concurrency: New only builds, and the counters count from then on. Serve runs until the function that it returns is
// called, on goroutines of the caller's group.
//
// It decides nothing: what is counted is said by who does it.
package metrics

import (
	"log/slog"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/member"
	"github.com/mpiup/mpiup/internal/exposition"
)

// Config is what an agent's metrics are made of.
type Config struct {
	Address  string // of the HTTP port; "off" for none
	Log      *slog.Logger
	Ending   func() bool                  // the agent ends
	Sessions func() int                   // that are open
	Peers    func(state member.State) int // known by gossip, this agent included
	Ranks    func() map[string]int        // that run here, by state; States has all
	Version  string                       // build

	Name string     // of the host, which is the pod's
	Host *host.Host // where sessions have their directories
}

// Metrics is what /metrics shows.
type Metrics struct {
	cfg Config

	Started  exposition.Count   // processes
	Failed   *exposition.Counts // processes that ended with a code other than 0 or by a signal, by How
	Jobs     exposition.Count   // with ranks here
	Fenced   exposition.Count   // sessions that a newer life of their launcher ended
	Refusals exposition.Count   // of connections
	OutBytes exposition.Count   // of output
}

// States are the states of ranks, by apiv1.RankPhase.
var States = []string{"no-mpi", "before-init", "waiting", "running", "finalized"}

// How processes fail, as the label of Failed.
const (
	ByCode   = "code"
	BySignal = "signal"
	ByOOM    = "oom"
	Stopped  = "stopped" // mpiup ended it
)

// New makes the counters; nothing is served until Serve.
func New(c Config) *Metrics {
	return &Metrics{cfg: c, Failed: exposition.NewCounts("how", ByCode, BySignal, ByOOM, Stopped)}
}

// page is what is shown now. watch is nil where there are no GPUs.
func (m *Metrics) page(watch *Watch) []exposition.Family {
	list := append(exposition.Runtime(),
		m.Started.Family("mpiup_processes_started_total", "Processes started for launchers."),
		m.Failed.Family("mpiup_processes_failed_total", "Processes that ended with a code other than 0 or by a signal."),
		m.Jobs.Family("mpiup_jobs_started_total", "Jobs that were to start ranks here."),
		m.Fenced.Family("mpiup_sessions_fenced_total", "Sessions ended because their launcher was started anew."),
		m.Refusals.Family("mpiup_connections_refused_total", "Connections refused before or during the TLS handshake."),
		m.OutBytes.Family("mpiup_output_bytes_total", "Bytes of output sent to launchers."),
		exposition.One(exposition.Gauge, "mpiup_sessions", "Sessions open.", float64(m.cfg.Sessions())),
		exposition.One(exposition.Gauge, "mpiup_build_info", "1, with the build as label.", 1, "version", m.cfg.Version))
	peers := exposition.Family{Name: "mpiup_peers", Kind: exposition.Gauge, Help: "Peers known by gossip, this agent included."}
	for _, state := range []member.State{member.Alive, member.Left, member.Suspect} {
		peers.Add(float64(m.cfg.Peers(state)), "state", state.String())
	}
	ranks := exposition.Family{Name: "mpiup_ranks", Kind: exposition.Gauge, Help: "Ranks that run here, by how far their MPI library has come."}
	n := m.cfg.Ranks()
	for _, state := range States {
		ranks.Add(float64(n[state]), "state", state)
	}
	list = append(append(list, peers, ranks), m.inspected()...)
	if watch != nil {
		list = append(list, gpus(watch)...)
	}
	return list
}
