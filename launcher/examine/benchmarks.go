package examine

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/doctor"
	"github.com/mpiup/mpiup/launcher/survey"
)

// pairs runs what is measured between each two hosts, with no host in two pairs at a time.
func (b *bench) pairs(ctx context.Context) (all []doctor.Measured) {
	for _, t := range doctor.PairTests {
		if b.paths[t.Program] == "" || len(b.hosts) < 2 {
			continue
		}
		all = append(all, b.everyPair(t, func(from, to int) doctor.Value {
			_, v, err := b.measure(ctx, b.paths[t.Program], t, pairLimit, part{from, 1}, part{to, 1})
			return of(b.name(from), b.name(to), v, err)
		}))
	}
	return all
}

func (b *bench) name(host int) string { return b.hosts[host].Entry.Name }

// of is a pair's value; of one host without to, of all without both.
func of(from, to string, v float64, err error) doctor.Value {
	if err != nil {
		return doctor.Value{From: from, To: to, Error: err.Error()}
	}
	return doctor.Value{From: from, To: to, Value: v}
}

// everyPair measures in rounds, and what is worse than the rest once more. When all pairs of the first round fail,
// so would the others.
func (b *bench) everyPair(t doctor.Test, pair func(from, to int) doctor.Value) doctor.Measured {
	m := doctor.Measured{Test: t.Title, Unit: t.Unit, Path: b.paths[t.Program]}
	rounds := doctor.Rounds(len(b.hosts))
	rounds = rounds[:min(len(rounds), maxRounds)]
	for _, round := range rounds {
		if t.Oneway {
			round = slices.DeleteFunc(slices.Clone(round), func(p [2]int) bool { return p[0] > p[1] })
		}
		begin := len(m.Values)
		m.Values = append(m.Values, make([]doctor.Value, len(round))...)
		survey.InParallel(len(round), func(k int) { m.Values[begin+k] = pair(round[k][0], round[k][1]) })
		failed := !slices.ContainsFunc(m.Values, func(v doctor.Value) bool { return v.Error == "" })
		if len(m.Values) > 0 && failed {
			return m
		}
	}
	b.again(&m, rounds, pair)
	return m
}

// again measures the doubtful pairs.
func (b *bench) again(m *doctor.Measured, rounds [][][2]int, pair func(from, to int) doctor.Value) {
	doubtful := map[[2]string]bool{}
	for _, v := range m.Doubtful() {
		doubtful[[2]string{v.From, v.To}] = true
	}
	for _, round := range rounds {
		round = slices.DeleteFunc(slices.Clone(round), func(p [2]int) bool {
			return !doubtful[[2]string{b.name(p[0]), b.name(p[1])}]
		})
		values := make([]doctor.Value, len(round))
		survey.InParallel(len(round), func(k int) { values[k] = pair(round[k][0], round[k][1]) })
		for _, v := range values {
			m.Better(v)
		}
	}
}

// whole runs what is measured with all ranks of all hosts. Tests of one program share its run.
func (b *bench) whole(ctx context.Context) (all []doctor.Measured) {
	parts, ranks := make([]part, len(b.hosts)), 0
	for i, h := range b.hosts {
		parts[i] = part{i, h.ranks}
		ranks += h.ranks
	}
	outputs := map[string]string{}
	for _, t := range doctor.WholeTests {
		if b.paths[t.Program] == "" || ranks < 2 {
			continue
		}
		m := doctor.Measured{Test: t.Title, Unit: t.Unit, Path: b.paths[t.Program], Shape: fmt.Sprintf("%d ranks on %s", ranks, visible.Count(len(b.hosts), "host"))}
		v, err := t.Parse(outputs[t.Program])
		if err != nil {
			outputs[t.Program], v, err = b.measure(ctx, b.paths[t.Program], t, wholeLimit, parts...)
		}
		m.Values = []doctor.Value{of("", "", v, err)}
		all = append(all, m)
	}
	return all
}

// nccl runs all_reduce_perf: on each host by itself with all of its GPUs, and with a rank for each GPU of all hosts.
func (b *bench) nccl(ctx context.Context, f *doctor.Fabric) (all []doctor.Measured) {
	alone := cmp.Or(b.paths["all_reduce_perf"], b.paths["all_reduce_perf_mpi"])
	joined := cmp.Or(b.paths["all_reduce_perf_mpi"], alone)
	if alone == "" {
		return nil
	}
	var parts []part
	gpus := 0
	for i, h := range b.hosts {
		if n := h.found.GPUs; n > 0 {
			parts = append(parts, part{i, n})
			gpus += n
		}
	}
	if gpus == 0 {
		f.Without = append(f.Without, alone+" was not run: no host has GPUs")
		return nil
	}
	each := doctor.Measured{Test: "all_reduce_perf, one host", Unit: doctor.MBs, Path: alone, Values: make([]doctor.Value, len(parts))}
	survey.InParallel(len(parts), func(k int) {
		t := doctor.NCCLTest(each.Test, strconv.Itoa(parts[k].slots))
		_, v, err := b.measure(ctx, alone, t, wholeLimit, part{parts[k].host, 1})
		each.Values[k] = of(b.name(parts[k].host), "", v, err)
	})
	all = append(all, each)
	if len(parts) > 1 {
		t := doctor.NCCLTest("all_reduce_perf", "1")
		_, v, err := b.measure(ctx, joined, t, wholeLimit, parts...)
		all = append(all, doctor.Measured{Test: t.Title, Unit: t.Unit, Path: joined,
			Shape: fmt.Sprintf("%d GPUs on %s", gpus, visible.Count(len(parts), "host")), Values: []doctor.Value{of("", "", v, err)}})
	}
	return all
}

// verbs runs ib_write_bw between each two hosts, for each device of the one that writes.
func (b *bench) verbs(ctx context.Context, f *doctor.Fabric) (all []doctor.Measured) {
	const program, most = "ib_write_bw", 32
	if b.paths[program] == "" || len(b.hosts) < 2 {
		return nil
	}
	var devices []string
	for _, h := range b.hosts {
		for _, p := range h.found.Ports {
			if name := portName(p); !slices.Contains(devices, name) {
				devices = append(devices, name)
			}
		}
	}
	if len(devices) == 0 {
		f.Without = append(f.Without, program+" was not run: no host has a usable RDMA device")
		return nil
	}
	for _, device := range devices[:min(len(devices), most)] {
		t := doctor.VerbsTest(device)
		m := b.everyPair(t, func(from, to int) doctor.Value {
			here, there, ok := rail(b.hosts[from].found.Ports, b.hosts[to].found.Ports, device)
			if !ok {
				return of(b.name(from), b.name(to), 0, fmt.Errorf("one of them has no usable device %s", device))
			}
			v, err := b.writes(ctx, t, from, to, here, there)
			return of(b.name(from), b.name(to), v, err)
		})
		all = append(all, m)
	}
	return all
}

func portName(p doctor.Port) string { return fmt.Sprintf("%.64s:%d", p.Device, p.Number) }

// rail is the device of that name on one host, and what it is wired to on another: its namesake, else the one at
// the same place of the list.
func rail(from, to []doctor.Port, name string) (here, there doctor.Port, ok bool) {
	same := func(p doctor.Port) bool { return portName(p) == name }
	i, k := slices.IndexFunc(from, same), slices.IndexFunc(to, same)
	if k < 0 {
		k = i
	}
	if i < 0 || k >= len(to) {
		return here, there, false
	}
	return from[i], to[k], true
}

// writes is ib_write_bw as a server on one host and its client, who writes, on the other. The client finds the server
// when that listens, so it is started until it does.
func (b *bench) writes(ctx context.Context, t doctor.Test, from, to int, here, there doctor.Port) (float64, error) {
	ctx, cancel := awake.Within(ctx, pairLimit)
	defer cancel()
	port := b.port()
	argv := func(p doctor.Port, more ...string) []string {
		words := append([]string{b.paths[t.Program]}, t.Args[0]...)
		words = append(words, "-d", p.Device, "-i", strconv.Itoa(p.Number), "-p", strconv.Itoa(port))
		if p.Ethernet && p.GID >= 0 {
			words = append(words, "-x", strconv.Itoa(p.GID))
		}
		return append(words, more...)
	}
	var served error
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, served = b.run(ctx, argv(there), job.NoProtocol, pairLimit, part{to, 1})
	}()
	defer func() { cancel(); <-done }()
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		out, err := b.run(ctx, argv(here, b.address(to)), job.NoProtocol, pairLimit, part{from, 1})
		if v, none := t.Parse(out); none == nil {
			return v, nil
		} else if err == nil {
			return 0, none
		}
		select {
		case <-done:
			if served != nil {
				err = fmt.Errorf("%w; on the other side: %v", err, served)
			}
			return 0, err
		case <-ctx.Done():
			return 0, err
		case <-time.After(pause):
		}
	}
}

// port is one that perftest may listen on: of --mpi-ports, else from its own default on.
func (b *bench) port() int {
	if r := b.cfg.MPIPorts; !r.IsZero() {
		return int(r.Low) + rand.IntN(r.Len())
	}
	const first, span = 18515, 1000
	return first + rand.IntN(span)
}

// address is where a host's MPI traffic goes to.
func (b *bench) address(host int) string {
	h := b.hosts[host]
	switch {
	case len(h.found.Addresses) > 0:
		return h.found.Addresses[0].String()
	case len(h.Fixed) > 0:
		return h.Fixed[0].Addr().Unmap().String()
	}
	return "127.0.0.1"
}
