package agent

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mpiup/mpiup/agent/checkup"
	"github.com/mpiup/mpiup/agent/mpilib"
	"github.com/mpiup/mpiup/agent/mpinet"
	"github.com/mpiup/mpiup/agent/policy"
	"github.com/mpiup/mpiup/agent/port"
	"github.com/mpiup/mpiup/agent/probe"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/network"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/topology/sysfs"
	"golang.org/x/sys/unix"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Bounds of what a launcher may ask for.
const (
	maxAnswer  = 10 * time.Minute // for which other hosts are answered, if a launcher stays so long
	maxAnswers = 64               // launchers that are answered for at a time
	maxTargets = 4096             // hosts of one Ask
	maxSought  = 64               // programs and directories of one Checkup
	askAtOnce  = 16
)

// answering counts the launchers for which ports are open for other hosts' questions.
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

// CommandLineError is what is wrong for this host with the launcher's command line.
type CommandLineError struct{ err error }

func (e *CommandLineError) Error() string { return e.err.Error() }

// Unwrap is the reason.
func (e *CommandLineError) Unwrap() error { return e.err }

// refusalOf is a look's error as the launcher tells such ones apart.
func refusalOf(err error) error {
	if errors.As(err, new(*CommandLineError)) {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	return status.Error(codes.FailedPrecondition, err.Error())
}

func (s *service) Checkup(ctx context.Context, r *apiv1.CheckupRequest) (*apiv1.CheckupReply, error) {
	if err := s.mayAsk(ctx); err != nil {
		return nil, err
	}
	reply, err := s.agent.Checkup(ctx, r)
	if err != nil {
		return nil, refusalOf(err)
	}
	return reply, nil
}

// Checkup looks at this host as a job's ranks would find it.
func (a *Agent) Checkup(ctx context.Context, r *apiv1.CheckupRequest) (*apiv1.CheckupReply, error) {
	if len(r.Programs)+len(r.LookIn) > maxSought {
		return nil, fmt.Errorf("%d programs in %d directories are too many to look for", len(r.Programs), len(r.LookIn))
	}
	fsys := sysfs.Host()
	h := a.hostFacts(ctx, fsys, r)
	choice, ports, err := chooseAsked(fsys, h.HCAs, r.Net, r.MpiPorts)
	if err != nil {
		return nil, err
	}
	h.Ports = ports
	reply := &apiv1.CheckupReply{Host: a.hello()}
	for _, f := range checkup.Look(h) {
		reply.Findings = append(reply.Findings, &apiv1.Finding{Name: f.Name, Verdict: apiv1.Verdict(f.Verdict), Text: f.Text, Fix: f.Fix})
	}
	for _, f := range checkup.Facts(h) {
		reply.Facts = append(reply.Facts, &apiv1.Fact{Name: f.Name, Value: f.Value})
	}
	for _, addr := range mpiAddresses(choice) {
		reply.Addresses = append(reply.Addresses, addr.String())
	}
	a.findPrograms(reply, r, h)
	return reply, nil
}

// chooseAsked is the interface and the ports of MPI's traffic, as a job with these flags would get them here.
func chooseAsked(fsys sysfs.FS, hcas rdma.Inventory, net, mpiPorts string) (c mpinet.Choice, ports network.Ports, err error) {
	wish, err := network.ParseWish(net)
	if err != nil {
		return c, ports, &CommandLineError{fmt.Errorf("--net: %w", err)}
	}
	if ports, err = network.ParsePorts(mpiPorts); err != nil {
		return c, ports, &CommandLineError{fmt.Errorf("--mpi-ports: %w", err)}
	}
	links, err := mpinet.Links()
	if err != nil {
		return c, ports, err
	}
	if c, err = mpinet.Choose(mpinet.Read(fsys, links, hcas), wish); err != nil {
		return c, ports, &CommandLineError{err}
	}
	return c, ports, nil
}

// mpiAddresses are those of the interface that was chosen. Link-local ones need a zone, which differs between hosts.
func mpiAddresses(choice mpinet.Choice) (list []netip.Addr) {
	for _, p := range choice.Addrs {
		if !p.Addr().IsLinkLocalUnicast() {
			list = append(list, p.Addr())
		}
	}
	return list
}

// hostFacts is what package checkup judges.
func (a *Agent) hostFacts(ctx context.Context, fsys sysfs.FS, r *apiv1.CheckupRequest) *checkup.Host {
	h := &checkup.Host{
		Ranks: int(min(r.Ranks, maxRanks)), GPUsPerRank: int(min(r.GpusPerRank, maxRanks)), Slots: a.cfg.Slots, CPUs: a.cfg.Inventory.CPUs, Quota: a.cfg.Inventory.Quota,
		HCAs: rdma.Read(fsys, rdma.Config{Addresses: addresses}), GPUs: a.gpus.know(ctx, a),
	}
	if m, err := a.machine.get(fsys); err == nil {
		h.HCAs.AddIdle(fsys, m)
	}
	h.Read(fsys)
	h.Temp = checkup.LookTemp(a.tempDir(), statBound)
	argv := r.Argv
	if len(argv) == 0 {
		argv = []string{"true"} // says nothing of MPI, so what the image has is found
	}
	h.MPI = a.libs.Look(mpilib.Query{Argv: argv, Env: environment(a.cfg.Env, nil, nil, nil), Dir: a.cfg.Dir}).Library
	return h
}

// responsive parts directories whose file systems answer from those whose do not.
func responsive(dirs []string) (yes, no []string) {
	for _, dir := range dirs {
		if errors.Is(dirExists(dir), errNoAnswer) {
			no = append(no, dir)
		} else {
			yes = append(yes, dir)
		}
	}
	return yes, no
}

// findPrograms tells where the programs are that the launcher would start, and what RDMA they could use.
func (a *Agent) findPrograms(reply *apiv1.CheckupReply, r *apiv1.CheckupRequest, h *checkup.Host) {
	if len(r.Programs) == 0 {
		return
	}
	search, _ := a.lookupEnv("PATH")
	first, silent := responsive(r.LookIn)
	path, more := responsive(filepath.SplitList(search))
	for _, dir := range append(silent, more...) { // the search would not end there
		reply.Findings = append(reply.Findings, &apiv1.Finding{Name: "search for benchmarks", Verdict: apiv1.Verdict_WARN,
			Text: dir + " was left out: its file system does not answer", Fix: "check the mount (a dead NFS, Lustre or FUSE server?), or take the directory off PATH"})
	}
	found := checkup.Find(os.DirFS("/"), r.Programs, first, path)
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

// tempDir is where ranks put temporary files, unless they are told otherwise.
func (a *Agent) tempDir() string {
	if dir, _ := a.lookupEnv("TMPDIR"); dir != "" {
		return dir
	}
	return "/tmp"
}

// beginning is how long after its start a rank that ends may have ended in MPI_Init.
const beginning = 30 * time.Second

// tempGlance is how long a rank's end waits for the word of the directory for temporary files.
const tempGlance = 200 * time.Millisecond

// lacking is what MPI lacks here, if that may be why the rank has ended so: it spoke to its MPI's server, and ended soon, or
// by a signal that memory beyond what /dev/shm holds brings.
func (p *proc) lacking(ex job.Exit) string {
	bus := ex.Signal == int(unix.SIGBUS)
	if p.pmi.Load() == int32(apiv1.PmiState_PMI_NEVER) || !bus && time.Since(p.begun) > beginning {
		return ""
	}
	room := checkup.Room{Ranks: len(p.step.launch.Procs), Bus: bus}
	room.ShmSize, room.ShmFree = checkup.Shm()
	if p.step.protocolOf(p.spec.App) == apiv1.Pmi_PMI_PMIX && !bus { // Open MPI alone needs it
		room.Temp = checkup.LookTemp(p.tempDir(), tempGlance)
	}
	return room.Lacking()
}

// tempDir is where the rank puts temporary files.
func (p *proc) tempDir() string {
	for _, kv := range slices.Backward(p.step.apps[p.spec.App].Env) {
		if dir, ok := strings.CutPrefix(kv, "TMPDIR="); ok && dir != "" {
			return dir
		}
	}
	return p.step.s.agent.tempDir()
}

func (s *service) Answer(stream grpc.BidiStreamingServer[apiv1.AnswerRequest, apiv1.AnswerReply]) error {
	if err := s.mayAsk(stream.Context()); err != nil {
		return err
	}
	r, err := stream.Recv()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	s.agent.running.Go(func() { // ends with the stream
		_, _ = stream.Recv() // the end of the caller's side, in whichever way
		cancel()
	})
	if err := s.agent.Answer(ctx, r, stream.Send); err != nil {
		return refusalOf(err)
	}
	return nil
}

// Answer opens ports for other hosts' questions, calls told with them, and answers until ctx ends; when it returns
// they are closed.
func (a *Agent) Answer(ctx context.Context, r *apiv1.AnswerRequest, told func(*apiv1.AnswerReply) error) error {
	token, err := tokenOf(r.Token)
	if err != nil {
		return err
	}
	fsys := sysfs.Host()
	choice, ports, err := chooseAsked(fsys, rdma.Read(fsys, rdma.Config{Addresses: addresses}), r.Net, r.MpiPorts)
	if err != nil {
		return err
	}
	if !a.answering.begin() {
		return fmt.Errorf("this agent answers the checks of %d launchers already; try again when one is done", maxAnswers)
	}
	defer a.answering.end()
	server, err := probe.Listen(a.answerAt(choice), ports, token)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, maxAnswer)
	defer cancel()
	var serving sync.WaitGroup
	defer serving.Wait()
	defer cancel()
	serving.Go(func() { server.Run(ctx) })
	reply := &apiv1.AnswerReply{}
	for _, at := range server.Addresses() {
		reply.Addresses = append(reply.Addresses, at.String())
	}
	if err := told(reply); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
	case <-a.stopping:
	}
	return nil
}

// answerAt is where MPI's traffic goes: the interface that was chosen, else this agent's own address. An agent on
// loopback shares the machine with others, and has no other.
func (a *Agent) answerAt(choice mpinet.Choice) []netip.Addr {
	own := port.Advertise(netip.AddrPortFrom(netip.IPv4Unspecified(), 0)).Addr()
	if a.front != nil {
		own = a.front.Advertised.Addr()
	}
	if list := mpiAddresses(choice); len(list) > 0 && !own.IsLoopback() {
		return list
	}
	return []netip.Addr{own}
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
	reply, err := s.agent.Ask(ctx, r)
	if err != nil {
		return nil, status.Error(codes.InvalidArgument, err.Error())
	}
	return reply, nil
}

// Ask measures the way to each of the targets, at their first address that answers.
func (a *Agent) Ask(ctx context.Context, r *apiv1.AskRequest) (*apiv1.AskReply, error) {
	token, err := tokenOf(r.Token)
	if err != nil || len(r.Targets) > maxTargets {
		return nil, fmt.Errorf("%d hosts, token: %v", len(r.Targets), err)
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
