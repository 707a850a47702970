package examine

import (
	"context"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher"
	"github.com/mpiup/mpiup/launcher/doctor"
	"github.com/mpiup/mpiup/launcher/hosts"
)

// perftest is ib_write_bw as runs see it: a server waits for the client that knows its port, and only the second client of a
// server finds it.
type perftest struct {
	t *testing.T

	mu      sync.Mutex
	servers map[string]chan struct{} // closed when the client is done; by port, guarded by mu
	tried   map[string]bool          // clients' ports, guarded by mu
	lines   []string                 // what was started, guarded by mu
}

func (w *perftest) start(ctx context.Context, cfg launcher.Config) int {
	argv, host := cfg.Apps[0].Argv, cfg.Known.Hosts[0].Entry.Name
	port := argv[slices.Index(argv, "-p")+1]
	last := argv[len(argv)-1]
	client := strings.HasPrefix(last, "10.")
	w.mu.Lock()
	words := slices.Clone(argv)
	words[slices.Index(argv, "-p")+1] = "PORT"
	w.lines = append(w.lines, host+": "+strings.Join(words, " "))
	done := w.servers[port]
	if done == nil {
		done = make(chan struct{})
		w.servers[port] = done
	}
	first := client && !w.tried[port]
	w.tried[port] = true
	w.mu.Unlock()
	n, err := strconv.Atoi(port)
	if err != nil || n < 18000 || n > 18999 {
		w.t.Errorf("port %s is none of --mpi-ports", port)
	}
	switch {
	case !client:
		select {
		case <-done:
		case <-ctx.Done():
			return job.ExitTimeout
		}
		return 0
	case first:
		cfg.Told([]string{"rank 0 on " + host + " exited with code 1"}, []string{"Couldn't connect to " + last})
		return 1
	}
	rate := 100.0
	if host == "w2" {
		rate = 50
	}
	fmt.Fprintf(cfg.Stdout, " #bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]\n 1048576 5000 %.2f %.2f 0.01\n", rate, rate)
	w.mu.Lock()
	defer w.mu.Unlock()
	close(done)
	delete(w.servers, port) // a later pair may draw the same port
	delete(w.tried, port)
	return 0
}

func verbsHosts(n int) (all []subject) {
	for i := range n {
		at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), 7611)
		all = append(all, subject{Wanted: hosts.Wanted{Entry: hostlist.Entry{Name: fmt.Sprintf("w%d", i)}, Fixed: []netip.AddrPort{at}},
			found: &doctor.Found{Ports: []doctor.Port{{Device: "mlx5_0", Number: 1, Ethernet: true, GID: 3}}, Addresses: []netip.Addr{netip.AddrFrom4([4]byte{10, 0, 1, byte(i)})}}, ranks: 2})
	}
	return all
}

func TestVerbs(t *testing.T) {
	w := &perftest{t: t, servers: map[string]chan struct{}{}, tried: map[string]bool{}}
	ports, err := job.ParsePorts("18000-18999")
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{cfg: &Config{MPIPorts: ports}, hosts: verbsHosts(3), paths: map[string]string{"ib_write_bw": "/usr/bin/ib_write_bw"},
		start: w.start, knows: map[string]int{}}
	f := &doctor.Fabric{}
	all := b.verbs(t.Context(), f)
	if len(all) != 1 || all[0].Test != "ib_write_bw mlx5_0:1" || len(all[0].Values) != 6 || f.Without != nil {
		t.Fatalf("%+v", all)
	}
	for _, v := range all[0].Values {
		want := 12500.0
		if v.From == "w2" {
			want /= 2
		}
		if v.Error != "" || v.Value != want {
			t.Errorf("%+v", v)
		}
	}
	const options = "/usr/bin/ib_write_bw -F --report_gbits -s 1048576 -n 5000 -d mlx5_0 -i 1 -p PORT -x 3"
	for _, line := range []string{"w1: " + options, "w0: " + options + " 10.0.1.1"} {
		if !slices.Contains(w.lines, line) {
			t.Errorf("never started: %s in\n%s", line, strings.Join(w.lines, "\n"))
		}
	}
	b.hosts[0].found.Ports, b.hosts[1].found.Ports, b.hosts[2].found.Ports = nil, nil, nil
	if all := b.verbs(t.Context(), f); all != nil || len(f.Without) != 1 {
		t.Errorf("without devices %+v, %q", all, f.Without)
	}
}

// What fails on both sides is told of both, and not tried with every pair.
func TestVerbsThatFail(t *testing.T) {
	b := &bench{cfg: &Config{}, hosts: verbsHosts(6), paths: map[string]string{"ib_write_bw": "ib_write_bw"}, knows: map[string]int{},
		start: func(_ context.Context, cfg launcher.Config) int {
			cfg.Told([]string{"rank 0 on " + cfg.Known.Hosts[0].Entry.Name + " exited with code 1"}, []string{"Couldn't allocate MR"})
			return 1
		}}
	all := b.verbs(t.Context(), &doctor.Fabric{})
	if len(all) != 1 || len(all[0].Values) != 3 {
		t.Fatalf("%+v", all)
	}
	for _, v := range all[0].Values {
		if !strings.Contains(v.Error, v.From+" exited with code 1") || !strings.Contains(v.Error, "on the other side: rank 0 on "+v.To) ||
			!strings.Contains(v.Error, "Couldn't allocate MR") {
			t.Errorf("%+v", v)
		}
	}
}

// GPUs: each host by itself, then a rank for each GPU; what was built without MPI is told so.
func TestNCCL(t *testing.T) {
	const head = "# nThread 1 nGpus 1 minBytes 536870912\n"
	hosts := verbsHosts(3)
	for i, n := range []int{8, 0, 8} {
		hosts[i].found.GPUs = n
	}
	var mu sync.Mutex
	var ran []string
	b := &bench{cfg: &Config{}, hosts: hosts, paths: map[string]string{"all_reduce_perf": "/opt/all_reduce_perf"}, knows: map[string]int{}}
	b.start = func(_ context.Context, cfg launcher.Config) int {
		var on []string
		for _, h := range cfg.Known.Hosts {
			on = append(on, fmt.Sprintf("%s:%d", h.Entry.Name, h.Entry.Slots))
		}
		mu.Lock()
		ran = append(ran, strings.Join(on, ",")+" "+strings.Join(cfg.Apps[0].Argv[len(cfg.Apps[0].Argv)-2:], " "))
		mu.Unlock()
		out := head + "# Avg bus bandwidth    : 450.5\n"
		if cfg.Apps[0].N > 1 {
			out += out
		}
		io.WriteString(cfg.Stdout, out)
		return 0
	}
	all := b.nccl(t.Context(), &doctor.Fabric{})
	slices.Sort(ran)
	if got := strings.Join(ran, "; "); got != "w0:1 -g 8; w0:8,w2:8 -g 1; w2:1 -g 8" {
		t.Error(got)
	}
	if len(all) != 2 || len(all[0].Values) != 2 || all[0].Values[1].Value != 450500 || all[0].Values[1].From != "w2" {
		t.Fatalf("%+v", all)
	}
	if v := all[1].Values[0]; all[1].Shape != "16 GPUs on 2 hosts" || !strings.Contains(v.Error, "MPI=1") {
		t.Errorf("%+v", all[1])
	}
}

func TestPrograms(t *testing.T) {
	hosts := verbsHosts(3)
	for i, path := range []string{"/opt/a/osu_bw", "/opt/b/osu_bw", ""} {
		hosts[i].found.Programs = map[string]string{"osu_latency": "/opt/osu_latency", "osu_bw": path}
	}
	b := &bench{hosts: hosts}
	found, partly := b.programs()
	if len(found) != 1 || found["osu_latency"] != "/opt/osu_latency" {
		t.Errorf("%v", found)
	}
	if len(partly) != 1 || !strings.HasSuffix(partly[0], "not run: /opt/a/osu_bw on w0; /opt/b/osu_bw on w1; none on w2") {
		t.Errorf("%q", partly)
	}
}
