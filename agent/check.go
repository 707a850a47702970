package agent

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/port"
	"github.com/mpiup/mpiup/internal/api/codec"
	"github.com/mpiup/mpiup/internal/api/rpc"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/identity"
)

// Check is what `mpiup agent --check` does for exec probes: it asks the agent of this
// container how it is. Under hostNetwork a sibling's agent may listen on the default port of
// the same loopback, so the answer must state this container's incarnation. It never depends
// on peers, DNS or load. addr is where the agent was found.
func Check(ctx context.Context, id *identity.Identity, incarnation, runDir string) (addr string, err error) {
	want := incarnation
	var candidates []string
	if r, err := host.ReadRecord(runDir); err == nil {
		want = r.Incarnation
		candidates = append(candidates, r.Address)
	}
	for _, p := range id.Ports() {
		candidates = append(candidates, net.JoinHostPort("127.0.0.1", strconv.Itoa(p)),
			net.JoinHostPort("::1", strconv.Itoa(p)))
	}
	var errs []error
	for _, addr := range candidates {
		h, err := hello(ctx, id, addr)
		switch {
		case err == nil && h.Incarnation == want:
			return addr, nil
		case err == nil:
			errs = append(errs, fmt.Errorf("%s: the agent of another container (%s, %.8s)", addr, h.Name, h.Incarnation))
		case !errors.Is(err, syscall.ECONNREFUSED):
			errs = append(errs, fmt.Errorf("%s: %w", addr, err))
		}
		if ctx.Err() != nil {
			break
		}
	}
	if len(errs) == 0 {
		return "", errors.New("no agent listens in this container; is `mpiup agent` its command?")
	}
	return "", fmt.Errorf("the agent of this container (%.8s) does not answer: %w", want, errors.Join(errs...))
}

const checkTimeout = 2 * time.Second

func hello(ctx context.Context, id *identity.Identity, addr string) (*apiv1.HelloReply, error) {
	ctx, cancel := awake.Within(ctx, checkTimeout)
	defer cancel()
	var d net.Dialer
	raw, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	conn, err := id.Connect(ctx, raw, id.ClientConfig(apiv1.AskProtocol, port.Sessions))
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	ready := make(chan net.Conn, 1)
	ready <- conn
	close(ready)
	cc, err := identity.OverGRPC(addr, ready)
	if err != nil {
		return nil, err
	}
	defer cc.Close()
	h, err := rpc.NewAgentClient(cc).Hello(ctx, &apiv1.HelloRequest{Protocol: apiv1.Protocol})
	if err == nil {
		codec.Vet(h)
	}
	return h, err
}
