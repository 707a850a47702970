package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/mpiup/mpiup/agent/checkup"
	"github.com/mpiup/mpiup/agent/mpilib"
	"github.com/mpiup/mpiup/agent/mpinet"
	"github.com/mpiup/mpiup/agent/policy"
	"github.com/mpiup/mpiup/agent/probe"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/network"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// Bounds of what a launcher may ask for.
const (
	maxAnswer  = 10 * time.Minute // for which other hosts are answered
	maxAnswers = 4                // at a time
	maxTargets = 4096             // hosts of one Ask
	maxSought  = 64               // programs and directories of one Checkup
	askAtOnce  = 16
)

// answering counts the ports that are open for other hosts' questions.
type answering struct {
	mu sync.Mutex
	n  int // guarded by mu
}

func (a *answering) begin() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.n == maxAnswers {
		return false
	}
	a.n++
	return true
}

func (a *answering) end() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.n--
}

// mayAsk: who may run ranks here may ask what they would find, and open connections as they could.
func (s *service) mayAsk(ctx context.Context) error {
	if err := s.agent.cfg.Policy.Check(policy.Run, caller(ctx)); err != nil {
		return status.Error(codes.PermissionDenied, err.Error())
	}
	return nil
}

func (s *service) Checkup(ctx context.Context, r *apiv1.CheckupRequest) (*apiv1.CheckupReply, error) {
	if err := s.mayAsk(ctx); err != nil {
		return nil, err
	}
	reply, err := s.agent.Checkup(ctx, r)
	if err != nil {
		return nil, status.Error(codes.FailedPrecondition, err.Error())
	}
	return reply, nil
}

// Checkup looks at this host as a job's ranks would find it, and opens a port for other hosts' questions if asked.
func (a *Agent) Checkup(ctx context.Context, r *apiv1.CheckupRequest) (*apiv1.CheckupReply, error) {
	wish, err := network.ParseWish(r.Net)
	if err != nil {
		return nil, fmt.Errorf("--net: %w", err)
	}
	ports, err := network.ParsePorts(r.MpiPorts)
	if err != nil {
		return nil, fmt.Errorf("--mpi-ports: %w", err)
	}
	if len(r.Programs)+len(r.LookIn) > maxSought {
		return nil, fmt.Errorf("%d programs in %d directories are too many to look for", len(r.Programs), len(r.LookIn))
	}
	fsys := sysfs.Host()
	h := a.hostFacts(ctx, fsys, r)
	reply := &apiv1.CheckupReply{Host: a.hello()}
	for _, f := range checkup.Look(h) {
		reply.Findings = append(reply.Findings, &apiv1.Finding{Name: f.Name, Verdict: apiv1.Verdict(f.Verdict), Text: f.Text, Fix: f.Fix})
	}
	for _, f := range checkup.Facts(h) {
		reply.Facts = append(reply.Facts, &apiv1.Fact{Name: f.Name, Value: f.Value})
	}
	links, err := mpinet.Links()
	if err != nil {
		return nil, err
	}
	choice, err := mpinet.Choose(mpinet.Read(fsys, links, h.HCAs), wish)
	if err != nil {
		return nil, err
	}
	for _, p := range choice.Addrs {
		if !p.Addr().IsLinkLocalUnicast() {
			reply.Addresses = append(reply.Addresses, p.Addr().String())
		}
	}
	a.findPrograms(reply, r, h)
	if r.AnswerMs > 0 {
		return reply, a.answer(reply, ports, r)
	}
	return reply, nil
}

// hostFacts is what package checkup judges.
func (a *Agent) hostFacts(ctx context.Context, fsys sysfs.FS, r *apiv1.CheckupRequest) *checkup.Host {
	h := &checkup.Host{
		Ranks: int(min(r.Ranks, 1<<20)), Slots: a.cfg.Slots, CPUs: a.cfg.Inventory.CPUs, Quota: a.cfg.Inventory.Quota,
		HCAs: rdma.Read(fsys, rdma.Config{Addresses: addresses}), GPUs: a.gpus.know(ctx, a),
	}
	h.Read(fsys)
	argv := r.Argv
	if len(argv) == 0 {
		argv = []string{"true"} // says nothing of MPI, so what the image has is found
	}
	h.MPI = a.libs.Look(mpilib.Query{Argv: argv, Env: environment(a.cfg.Env, nil, nil, nil), Dir: a.cfg.Dir}).Library
	return h
}

// findPrograms tells where the programs are that the launcher would start, and what RDMA they could use.
func (a *Agent) findPrograms(reply *apiv1.CheckupReply, r *apiv1.CheckupRequest, h *checkup.Host) {
	if len(r.Programs) == 0 {
		return
	}
	search, _ := a.lookupEnv("PATH")
	found := checkup.Find(os.DirFS("/"), r.Programs, r.LookIn, filepath.SplitList(search))
	for _, name := range r.Programs {
		if at := found[name]; at != "" {
			reply.Programs = append(reply.Programs, &apiv1.Fact{Name: name, Value: at})
		}
	}
	for _, hca := range h.HCAs.Usable() {
		for _, p := range hca.Active() {
			if hca.Kind != rdma.Verbs {
				continue // perftest speaks verbs
			}
			gid := -1
			if g, ok := p.RoCE(); ok {
				gid = g.Index
			}
			reply.Rdma = append(reply.Rdma, &apiv1.RdmaPort{Device: hca.Name, Port: uint32(p.Number), Ethernet: p.Ethernet, Gid: int32(gid)})
		}
	}
}

// answer opens a port for a while.
func (a *Agent) answer(reply *apiv1.CheckupReply, ports network.Ports, r *apiv1.CheckupRequest) error {
	token, err := tokenOf(r.Token)
	if err != nil {
		return err
	}
	if !a.answering.begin() {
		return errors.New("this agent answers the checks of others already; wait until they are done")
	}
	server, err := probe.Listen(ports, token)
	if err != nil {
		a.answering.end()
		return err
	}
	reply.Port = uint32(server.Port())
	ctx, cancel := context.WithTimeout(context.Background(), min(time.Duration(r.AnswerMs)*time.Millisecond, maxAnswer))
	a.running.Go(func() {
		defer a.answering.end()
		defer cancel()
		server.Run(ctx)
	})
	a.running.Go(func() {
		defer cancel()
		select {
		case <-ctx.Done():
		case <-a.stopping:
		}
	})
	return nil
}

func tokenOf(b []byte) (t probe.Token, err error) {
	if len(b) != len(t) {
		return t, fmt.Errorf("a token of %d bytes, not %d", len(b), len(t))
	}
	return probe.Token(b), nil
}

func (s *service) Ask(ctx context.Context, r *apiv1.AskRequest) (*apiv1.AskReply, error) {
	if err := s.mayAsk(ctx); err != nil {
		return nil, err
	}
	token, err := tokenOf(r.Token)
	if err != nil || len(r.Targets) > maxTargets {
		return nil, status.Errorf(codes.InvalidArgument, "%d hosts, token: %v", len(r.Targets), err)
	}
	reply := &apiv1.AskReply{Ways: make([]*apiv1.Way, len(r.Targets))}
	var asking sync.WaitGroup
	slots := make(chan struct{}, askAtOnce)
	for i, t := range r.Targets {
		slots <- struct{}{}
		asking.Go(func() {
			defer func() { <-slots }()
			reply.Ways[i] = askOne(ctx, t, token, r.Rate)
		})
	}
	asking.Wait()
	return reply, nil
}

// askOne measures the way to the first address of a host that answers.
func askOne(ctx context.Context, t *apiv1.Target, token probe.Token, rate bool) *apiv1.Way {
	w := &apiv1.Way{Host: t.Host, Error: "it has no address"}
	for _, text := range t.Addresses[:min(len(t.Addresses), 8)] {
		to, err := netip.ParseAddrPort(text)
		if err != nil {
			w.Error = fmt.Sprintf("%.60q is no address", text)
			continue
		}
		way, err := probe.Ask(ctx, to, token, rate)
		w.Address, w.RttNs, w.Rate, w.Mtu = text, way.RTT.Nanoseconds(), way.Rate, uint32(way.MTU)
		if err == nil {
			w.Error = ""
			return w
		}
		w.Error = err.Error()
	}
	return w
}
