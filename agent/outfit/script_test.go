package outfit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/agent/host"
	"github.com/mpiup/mpiup/gpu"
	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/rdma"
	"github.com/mpiup/mpiup/test/golden"
	"github.com/mpiup/mpiup/test/machine"
	"github.com/mpiup/mpiup/topology"
	"github.com/mpiup/mpiup/topology/discover"
	"github.com/mpiup/mpiup/topology/sysfs"
	"golang.org/x/tools/txtar"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"
)

// A script in testdata is a txtar archive. "launch" is an apiv1.Launch as text, "host" is a described as JSON; each holds
// until the next of its kind. "case NAME" is merged into the launch, and "want" after it is what comes out:
//
//	warning: TEXT | notice: TEXT | error: TEXT
//	rank R: ARGV [= PATH] [cpus LIST [memory NODE]]
//	  NAME=VALUE   REASON
//
// Of the variables those are shown that mpiup gives or the user, if "only" is empty or they begin with one of its words.
// go test -update writes what comes out.
func TestScripts(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	if len(files) == 0 {
		t.Fatal("no scripts")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) { play(t, file) })
	}
}

func play(t *testing.T, file string) {
	archive, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	launch, on := &apiv1.Launch{}, described{}
	var out []txtar.File
	for _, f := range archive.Files {
		name, what, _ := strings.Cut(f.Name, " ")
		if name != "want" {
			out = append(out, f)
		}
		switch name {
		case "launch":
			launch = &apiv1.Launch{}
			if err := prototext.Unmarshal(f.Data, launch); err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
		case "host":
			on = described{}
			if err := json.Unmarshal(f.Data, &on); err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
		case "case":
			l, more := proto.CloneOf(launch), &apiv1.Launch{}
			if err := prototext.Unmarshal(f.Data, more); err != nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			proto.Merge(l, more)
			out = append(out, txtar.File{Name: "want", Data: []byte(outcome(t, l, on))})
		case "want":
		default:
			t.Fatalf("section %q %q", name, what)
		}
	}
	golden.Is(t, file, string(txtar.Format(&txtar.Archive{Comment: archive.Comment, Files: out})))
}

// described is a host and what was found out of a launch's programs there.
type described struct {
	Name      string
	Env       []string
	GPUs      []string // UUIDs of NVIDIA's
	Machine   string   // of test/machine
	NoFabric  bool
	Locked    int // bytes; 0: any
	Links     []host.Link
	MCAFiles  map[string]rdma.Param
	Torch     bool // Debian's
	Account   host.Account
	Hint      string
	Files     string
	Protocols []string // by program, without PMI_
	OpenMPI   bool
	OldHwloc  bool
	NCCL      string
	Wire      []string
	Gloo      uint16
	Only      []string
}

// outcome is what processes on such a host are started with.
func outcome(t *testing.T, m *apiv1.Launch, on described) string {
	t.Helper()
	l, err := Parse(m)
	if err != nil {
		return "error: " + err.Error() + "\n"
	}
	h := Host{Name: cmp.Or(on.Name, "w0"), Env: on.Env, NoFabric: on.NoFabric, Locked: rdma.Locked{Any: on.Locked == 0, Limit: uint64(on.Locked)}, MCAFiles: on.MCAFiles,
		OldTorchrun: on.Torch, Account: func() host.Account { return on.Account }}
	for i, name := range on.GPUs {
		h.GPUs.Vendor = gpu.NVIDIA
		h.GPUs.GPUs = append(h.GPUs.GPUs, gpu.GPU{Number: i, UUID: name, At: topology.PCIAddr{Bus: uint8(i + 1)}})
	}
	h.FileGPUs = h.GPUs
	bound := l.Bind(nil, nil)
	fsys := sysfs.New(machine.Parse(t, ""))
	if on.Machine != "" {
		fsys = sysfs.New(machine.Load(t, on.Machine))
		mach, err := discover.Machine(fsys, 0)
		if err != nil {
			t.Fatal(err)
		}
		lay, err := mach.Layout(mach.AllowedCPUs)
		if err != nil {
			t.Fatal(err)
		}
		bound = l.Bind(lay, mach)
		h.HCAs = rdma.Read(fsys, rdma.Config{})
	}
	h.Interfaces = host.NetworkOf(fsys, on.Links, h.HCAs)
	j := Job{Launch: l, Session: "s", Bound: bound, Hint: on.Hint, Files: on.Files}
	for i, a := range l.Apps {
		p := Program{App: a, Dir: cmp.Or(a.Wdir, "/"), OpenMPI: on.OpenMPI, OldHwloc: on.OldHwloc, NCCL: on.NCCL}
		if i < len(on.Protocols) {
			p.Protocol = apiv1.Pmi(apiv1.Pmi_value["PMI_"+on.Protocols[i]])
		}
		j.Programs = append(j.Programs, p)
	}
	var b strings.Builder
	o, notices, err := New(j, h)
	for _, n := range notices {
		fmt.Fprintf(&b, "%s: %s\n", map[bool]string{true: "warning", false: "notice"}[n.Warning], n.Text)
	}
	if err != nil {
		return b.String() + "error: " + err.Error() + "\n"
	}
	for _, p := range l.Procs {
		way := Way{Wire: on.Wire, Gloo: on.Gloo}
		r := o.Of(p, way)
		fmt.Fprintf(&b, "rank %d: %s", p.Rank, strings.Join(r.Argv, " "))
		if r.Path != "" {
			fmt.Fprintf(&b, " = %s", r.Path)
		}
		if !r.CPUs.Empty() {
			fmt.Fprintf(&b, " cpus %s", r.CPUs)
		}
		if r.Memory != nil {
			fmt.Fprintf(&b, " memory %d", *r.Memory)
		}
		b.WriteString("\n")
		for _, g := range explain(r.Env, j.Programs[p.App].App.Env, o.sources(p, way)) {
			shown := len(on.Only) == 0 && g.From != "container" || slices.ContainsFunc(on.Only, func(w string) bool { return strings.HasPrefix(g.Name, w) })
			if shown {
				fmt.Fprintf(&b, "  %s=%s   %s\n", g.Name, g.Value, cmp.Or(g.Why, g.From))
			}
		}
	}
	return b.String()
}
