package doctor

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/mpiup/mpiup/test/cost"
)

const osu5 = `# OSU MPI Bandwidth Test v5.3
# Size      Bandwidth (MB/s)
524288               9000.50
1048576             10117.64
`

const osu7 = `
# OSU MPI Allreduce Latency Test v7.4
# Datatype: MPI_INT.
# Size       Avg Latency(us)   Min Latency(us)   Max Latency(us)  Iterations
4                       1.34              1.30              1.40        1000
8                       1.44              1.30              1.60        1000
1048576               812.07            800.00            830.10         100
`

const perftest = `---------------------------------------------------------------------------------------
                    RDMA_Write BW Test
 Dual-port       : OFF		Device         : mlx5_0
 local address: LID 0000 QPN 0x0089 PSN 0x70c4bd RKey 0x180500 VAddr 0x007f0a8ad7d000
---------------------------------------------------------------------------------------
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 1048576    5000             392.02             391.20		     0.046637
---------------------------------------------------------------------------------------
`

const nccl = `# nThread 1 nGpus 1 minBytes 536870912 maxBytes 536870912 step: 1048576(bytes) warmup iters: 5 iters: 20 agg iters: 1 validation: 0 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid   1887 on   worker-1 device  0 [0x8d] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid   1888 on   worker-1 device  1 [0x91] NVIDIA H100 80GB HBM3
worker-1:1887:1887 [0] NCCL INFO Bootstrap : Using eth0:10.0.0.7<0>
   536870912     134217728     float     sum      -1   2123.4  252.83  474.06    N/A   2120.1  253.23  474.80    N/A
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 474.43
#
`

func TestParse(t *testing.T) {
	for _, tt := range []struct {
		name   string
		parse  func(string) (float64, error)
		output string
		want   float64
		says   string
	}{
		{"OSU 5", atSize(large), osu5, 10117.64, ""},
		{"OSU 7 with all columns", atSize(small), osu7, 1.44, ""},
		{"OSU's usage", atSize(small), "Usage: osu_bw [options]\n  -m 8 is not known\n", 0, "no result"},
		{"a value that is none", atSize(small), "8 nan\n8 -1\n8 1e300\n8 0\n", 0, "no result"},
		{"perftest, gigabits", perftestRate, perftest, 48900, ""},
		{"perftest, of its own units", perftestRate, strings.ReplaceAll(perftest, "[Gb/sec]", "[MB/sec]"), 391.20 * 1.048576, ""},
		{"perftest without a device", perftestRate, " Did not detect devices \n If device exists, check if driver is up\n", 0, "no result"},
		{"NCCL", ncclRate, nccl, 474430, ""},
		{"NCCL without MPI", ncclRate, nccl + nccl, 0, "MPI=1"},
		{"NCCL that fails", ncclRate, "worker: Test NCCL failure common.cu:958 'unhandled system error'\n", 0, "no result"},
		{"nothing", ncclRate, "", 0, "no result"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := tt.parse(tt.output)
			if math.Abs(got-tt.want) > 1e-6*tt.want || (err == nil) != (tt.says == "") {
				t.Fatalf("%v, %v", got, err)
			}
			if err != nil && !strings.Contains(err.Error(), tt.says) {
				t.Error(err)
			}
		})
	}
}

// bandwidths is a test between three hosts in which the ways from and to some are slower.
func bandwidths(slow map[string]float64) Measured {
	m := Measured{Test: "osu_bw 1 MiB", Unit: MBs, Path: "/opt/osu_bw"}
	for _, from := range []string{"w0", "w1", "w2"} {
		for _, to := range []string{"w0", "w1", "w2"} {
			v := Value{From: from, To: to, Value: 12000}
			for _, by := range []string{from + ">" + to, from, to} {
				if f, ok := slow[by]; ok {
					v.Value *= f
				}
			}
			if from != to {
				m.Values = append(m.Values, v)
			}
		}
	}
	return m
}

func TestBenchmarks(t *testing.T) {
	hosts := []string{"w0", "w1", "w2"}
	healthy := []Host{{Name: "w0", Found: reply("v1", "")}, {Name: "w1", Found: reply("v1", "")}, {Name: "w2", Found: reply("v1", "")}}
	found := map[string]string{"osu_bw": "/opt/osu_bw"}
	latency := Measured{Test: "osu_allreduce 8 B", Unit: Micro, Shape: "24 ranks on 3 hosts", Path: "/opt/osu_allreduce", Values: []Value{{Value: 20}}}
	first := &Fabric{Hosts: hosts, Found: found, Measured: []Measured{bandwidths(nil), latency}}
	before := NewBaseline(first)
	slower := latency
	slower.Values = []Value{{Value: 23}}
	broken := bandwidths(nil)
	for i := range 2 {
		broken.Values[i] = Value{From: broken.Values[i].From, To: broken.Values[i].To, Error: "rank 1 on w1 was killed by signal 11 (SIGSEGV)"}
	}
	for _, tt := range []struct {
		name string
		f    *Fabric
	}{
		{"fabric-none", &Fabric{Hosts: hosts}},
		{"fabric-one-host", &Fabric{Hosts: hosts[:1], Found: found}},
		{"fabric-first", &Fabric{Hosts: hosts, Found: found, Measured: first.Measured, File: "base.json", Baseline: before, Written: true}},
		{"fabric-same", &Fabric{Hosts: []string{"x0", "x1", "x2"}, Found: found, Measured: []Measured{latency}, File: "base.json", Baseline: before}},
		{"fabric-slow-way", &Fabric{Hosts: hosts, Found: found, Measured: []Measured{bandwidths(map[string]float64{"w0>w1": 0.85, "w1>w2": 0.95}), slower}, File: "base.json", Baseline: before}},
		{"fabric-slow-host", &Fabric{Hosts: hosts, Found: found, Measured: []Measured{bandwidths(map[string]float64{"w2": 0.5, "w0>w1": 1.02}), latency}}},
		{"fabric-slower-than-ever", &Fabric{Hosts: hosts, Found: found, Measured: []Measured{bandwidths(map[string]float64{"w0": 0.9, "w1": 0.9, "w2": 0.9}), latency}, File: "base.json", Baseline: before}},
		{"fabric-broken", &Fabric{Hosts: hosts, Found: found, Partly: []string{"osu_latency is not at one place on all hosts, and was not run: /opt on w0; none on w1,w2"},
			Without: []string{"all_reduce_perf was not run: no host has GPUs"}, Measured: []Measured{broken}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := Judge(healthy, nil)
			r.Benchmarks(tt.f)
			shown(t, tt.name, r)
		})
	}
}

// More than 10 % is 22 of 20 microseconds as it is 18 of 20 GB/s. Of no host nothing is said of the image.
func TestTolerance(t *testing.T) {
	for _, tt := range []struct {
		unit        string
		value, than float64
		want        bool
	}{
		{Micro, 22.1, 20, true}, {Micro, 21.9, 20, false}, {Micro, 10, 20, false},
		{MBs, 17.9, 20, true}, {MBs, 18.1, 20, false}, {MBs, 30, 20, false},
	} {
		if got := (&Measured{Unit: tt.unit}).lower(tt.value, tt.than); got != tt.want {
			t.Errorf("%+v", tt)
		}
	}
	r := Judge([]Host{{Name: "w0", Error: "no answer"}}, nil)
	r.Benchmarks(&Fabric{})
	for _, row := range r.Rows {
		if strings.Contains(row.Text, "in the image") {
			t.Error(row)
		}
	}
}

// A doubtful way is measured again, and the better value stays.
func TestDoubtful(t *testing.T) {
	m := bandwidths(map[string]float64{"w0>w1": 0.5, "w1>w0": 0.91})
	again := m.Doubtful()
	if len(again) != 1 || again[0].From != "w0" || again[0].To != "w1" {
		t.Fatalf("%+v", again)
	}
	m.Better(Value{From: "w0", To: "w1", Value: 3000})
	m.Better(Value{From: "w0", To: "w1", Error: "it hung"})
	m.Better(Value{From: "w7", To: "w1", Value: 1})
	if len(m.Doubtful()) != 1 || m.Values[0].Value != 6000 {
		t.Errorf("%+v", m.Values)
	}
	m.Better(Value{From: "w0", To: "w1", Value: 11900})
	if m.Doubtful() != nil {
		t.Errorf("%+v", m.Values)
	}
	l := Measured{Unit: Micro, Values: []Value{{From: "a", To: "b", Value: 10}, {From: "b", To: "c", Value: 10}, {From: "a", To: "c", Value: 12}}}
	if d := l.Doubtful(); len(d) != 1 || d[0].To != "c" {
		t.Errorf("%+v", d)
	}
	l.Better(Value{From: "a", To: "c", Value: 10.5})
	if l.Doubtful() != nil {
		t.Errorf("%+v", l.Values)
	}
}

func TestBaselineRoundTrip(t *testing.T) {
	m := bandwidths(nil)
	m.Values = append(m.Values, Value{From: "w1", Value: 3}, Value{From: "w1", To: "w2", Error: "it hung"}, Value{Value: 9})
	b := NewBaseline(&Fabric{Hosts: []string{"w0", "w1", "w2"}, Measured: []Measured{m, {Test: "nothing", Unit: MBs}}})
	text, err := b.Text()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseBaseline(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b, got); diff != "" {
		t.Error(diff)
	}
	if len(b.Tests) != 1 || len(b.Tests[0].Ways) != 7 {
		t.Errorf("%s", text)
	}
	for _, tt := range []struct{ name, text, says string }{
		{"no JSON", "hello", "no baseline"},
		{"another file", `{"hosts":[]}`, "version 0"},
		{"a later version", `{"mpiup_fabric_baseline":2}`, "version 2"},
		{"a host that is not there", `{"mpiup_fabric_baseline":1,"hosts":["a"],"tests":[{"test":"t","median":1,"ways":[{"from":1,"value":1}]}]}`, "from 1"},
		{"a median that is none", `{"mpiup_fabric_baseline":1,"tests":[{"test":"t","median":-1}]}`, "median of -1"},
		{"a value beyond all", `{"mpiup_fabric_baseline":1,"hosts":["a"],"tests":[{"test":"t","median":1,"ways":[{"value":1e99}]}]}`, "1e+99"},
		{"a long name", `{"mpiup_fabric_baseline":1,"hosts":["` + strings.Repeat("a", 2000) + `"]}`, "2000 bytes"},
	} {
		if _, err := ParseBaseline([]byte(tt.text)); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// Whatever a file and a benchmark say, they are judged.
func FuzzBaseline(f *testing.F) {
	b := NewBaseline(&Fabric{Hosts: []string{"w0", "w1", "w2"}, Measured: []Measured{bandwidths(nil)}})
	text, err := b.Text()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text, osu5)
	f.Add([]byte(`{"mpiup_fabric_baseline":1,"hosts":["w0"],"tests":[{"test":"osu_bw 1 MiB","unit":"MB/s","median":1}]}`), perftest)
	f.Add([]byte(`{}`), nccl)
	f.Fuzz(func(t *testing.T, text []byte, output string) {
		defer cost.Watch(t, cost.Parser, len(text)+len(output))()
		for _, parse := range []func(string) (float64, error){atSize(small), atSize(large), perftestRate, ncclRate} {
			if v, err := parse(output); err == nil && !(v > 0 && v < 1e20) {
				t.Errorf("%v of %q", v, output)
			}
		}
		b, err := ParseBaseline(text)
		if err != nil {
			return
		}
		r := Judge([]Host{{Name: "w0"}, {Name: "w1"}, {Name: "w2"}}, nil)
		r.Benchmarks(&Fabric{Hosts: []string{"w0", "w1", "w2"}, Measured: []Measured{bandwidths(nil)}, File: "f", Baseline: b})
		if err := r.Text(&strings.Builder{}, Full); err != nil {
			t.Error(err)
		}
	})
}
