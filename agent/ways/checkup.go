package ways

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"

	"github.com/mpiup/mpiup/agent/checkup"
	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/agent/mpilib"
	"github.com/mpiup/mpiup/agent/outfit"
	"github.com/mpiup/mpiup/agent/watch"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/topology/sysfs"
)

// CommandLineError is what is wrong for this host with the launcher's command line.
type CommandLineError struct{ err error }

func (e *CommandLineError) Error() string { return e.err.Error() }

// Unwrap is the reason.
func (e *CommandLineError) Unwrap() error { return e.err }

// Checkup looks at this host as a job's ranks would find it.
func (s *Survey) Checkup(ctx context.Context, r *apiv1.CheckupRequest) (*apiv1.CheckupReply, error) {
	if len(r.Programs)+len(r.LookIn) > maxSought {
		return nil, fmt.Errorf("%d programs in %d directories are too many to look for", len(r.Programs), len(r.LookIn))
	}
	fsys := sysfs.Host()
	h := s.hostFacts(ctx, fsys, r)
	choice, ports, err := chooseAsked(h.HCAs, r.Net, r.MpiPorts)
	if err != nil {
		return nil, err
	}
	h.Ports = ports
	reply := &apiv1.CheckupReply{Host: s.cfg.Hello()}
	for _, f := range checkup.Look(h) {
		reply.Findings = append(reply.Findings, &apiv1.Finding{Name: f.Name, Verdict: apiv1.Verdict(f.Verdict), Text: checkup.Here(s.cfg.Env, f.Text),
			Fix: checkup.Here(s.cfg.Env, f.Fix)})
	}
	for _, f := range checkup.Facts(h) {
		reply.Facts = append(reply.Facts, &apiv1.Fact{Name: f.Name, Value: f.Value})
	}
	for _, addr := range mpiAddresses(choice) {
		reply.Addresses = append(reply.Addresses, addr.String())
	}
	s.findPrograms(reply, r, h)
	if r.Launch != nil {
		reply.Seats = s.seats(r.Launch, h)
	}
	return reply, nil
}

// seats says where a launch's ranks would sit here.
func (s *Survey) seats(l *apiv1.Launch, h *checkup.Host) *apiv1.Seats {
	on, machine, err := s.cfg.Host.Layout()
	if err != nil {
		return &apiv1.Seats{Error: err.Error()}
	}
	return outfit.Seats(l, on, machine, outfit.Host{Env: s.cfg.Env, FileGPUs: h.GPUs, GPUs: h.GPUs, HCAs: h.HCAs, Locked: checkup.LockedMemory()})
}

// chooseAsked is the interface and the ports of MPI's traffic, as a job with these flags would get them here.
func chooseAsked(hcas rdma.Inventory, net, mpiPorts string) (c outfit.Choice, ports job.Ports, err error) {
	wish, err := job.ParseNetwork(net)
	if err != nil {
		return c, ports, &CommandLineError{fmt.Errorf("--net: %w", err)}
	}
	if ports, err = job.ParsePorts(mpiPorts); err != nil {
		return c, ports, &CommandLineError{fmt.Errorf("--mpi-ports: %w", err)}
	}
	interfaces, err := host.Interfaces(hcas)
	if err != nil {
		return c, ports, err
	}
	if c, err = outfit.Choose(interfaces, wish); err != nil {
		return c, ports, &CommandLineError{err}
	}
	return c, ports, nil
}

// mpiAddresses are those of the interface that was chosen. Link-local ones need a zone, which differs between hosts.
func mpiAddresses(choice outfit.Choice) (list []netip.Addr) {
	for _, p := range choice.Addrs {
		if !p.Addr().IsLinkLocalUnicast() {
			list = append(list, p.Addr())
		}
	}
	return list
}

// hostFacts is what package checkup judges.
func (s *Survey) hostFacts(ctx context.Context, fsys sysfs.FS, r *apiv1.CheckupRequest) *checkup.Host {
	h := &checkup.Host{
		Ranks:       int(min(r.Ranks, maxRanks)),
		GPUsPerRank: int(min(r.GpusPerRank, maxRanks)),
		Slots:       s.cfg.Slots,
		CPUs:        s.cfg.Inventory.CPUs,
		Quota:       s.cfg.Inventory.Quota,
		HCAs:        s.cfg.Host.HCAs(),
		GPUs:        s.cfg.Host.GPUs(ctx),
	}
	if err := watch.CheckLibrary(s.cfg.WatchLibrary); err != nil {
		h.Watch = err.Error()
	}
	h.Read(fsys)
	h.Temp = checkup.LookTemp(s.cfg.Host.TempDir(), host.StatBound)
	argv := r.Argv
	if len(argv) == 0 {
		argv = []string{"true"} // says nothing of MPI, so what the image has is found
	}
	h.MPI = s.cfg.Libs.Look(mpilib.Query{Argv: argv, Env: s.cfg.Env, Dir: s.cfg.Dir}).Library
	return h
}

// responsive parts directories whose file systems answer from those whose do not.
func responsive(dirs []string) (yes, no []string) {
	for _, dir := range dirs {
		if errors.Is(host.DirExists(dir), host.ErrNoAnswer) {
			no = append(no, dir)
		} else {
			yes = append(yes, dir)
		}
	}
	return yes, no
}

// findPrograms tells where the programs are that the launcher would start, and what RDMA they could use.
func (s *Survey) findPrograms(reply *apiv1.CheckupReply, r *apiv1.CheckupRequest, h *checkup.Host) {
	if len(r.Programs) == 0 {
		return
	}
	search, _ := s.cfg.Host.Getenv("PATH")
	first, silent := responsive(r.LookIn)
	path, more := responsive(filepath.SplitList(search))
	for _, dir := range append(silent, more...) { // the search would not end there
		reply.Findings = append(reply.Findings, &apiv1.Finding{Name: "search for benchmarks", Verdict: apiv1.Verdict_WARN,
			Text: dir + " was left out: its file system does not answer", Fix: "check the mount (a dead NFS, Lustre or FUSE server?), or take the directory off PATH"})
	}
	found := checkup.Find(bounded.Tree("/"), r.Programs, first, path)
	for _, name := range r.Programs {
		if at := found[name]; at != "" {
			reply.Programs = append(reply.Programs, &apiv1.ProgramFile{Name: name, Path: at})
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
