package main

import (
	"fmt"
	"net"

	"github.com/mpiup/mpiup/launcher"
	"github.com/mpiup/mpiup/launcher/runmetrics"
)

// showRun serves /metrics of a run at the address of --metrics, else at that of MPIUP_METRICS, which a pod's manifest has for whatever is started
// in the pod. So an address of the variable that is taken, as by another run beside this one, is told and no more, and a rank's own runs have none:
// its container may be its launcher's. insecure: it may listen on loopback alone. stop ends it.
func (p *process) showRun(cfg *launcher.Config, flag string, insecure bool) (stop func(), err error) {
	address, by := flag, "--metrics"
	if _, rank := p.lookup("MPIUP_RANK"); address == "" && !rank {
		address, by = p.getenv("MPIUP_METRICS"), "MPIUP_METRICS"
	}
	if address == "" || address == "off" && by == "MPIUP_METRICS" {
		return func() {}, nil
	}

	host, port, err := net.SplitHostPort(address)
	switch {
	case insecure && err == nil && host == "":
		address = net.JoinHostPort("127.0.0.1", port)
	case insecure && (err != nil || !loopback(host)):
		return nil, fmt.Errorf("--insecure listens on loopback only, not for %s %s: write 127.0.0.1 and a port", by, address)
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		err = fmt.Errorf("%s %s: %w; name an address of this host and a free port", by, address, err)
		if by == "MPIUP_METRICS" {
			tell(p.stderr, "mpiup: warning:", fmt.Errorf("nobody sees this run's metrics: %w", err))
			return func() {}, nil
		}
		return nil, err
	}
	cfg.Metrics = runmetrics.New(version)
	return cfg.Metrics.Serve(l), nil
}
