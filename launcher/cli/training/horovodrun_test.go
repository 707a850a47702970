package training

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/cost"
)

const usual = " -bind-to none -map-by slot"
const ends = " --tag-output --fwd-environment"

func TestLinesOfHorovodrun(t *testing.T) {
	for _, tt := range []struct{ line, want, err string }{
		{"-np 2 python train.py --lr 1", "-np 2" + usual + ends + " python train.py --lr 1", ""},
		{"-np 4 -H a:2,b:2 ./a", "-np 4 -H a:2,b:2" + usual + ends + " ./a", ""},
		{"--num-proc=4 -hostfile f ./a", "-np 4 --hostfile f" + usual + ends + " ./a", ""},
		{"-np 1 -H a -- -odd", "-np 1 -H a" + usual + ends + " -odd", ""},
		{"-np 2 -H a:2 --mpi ./a", "-np 2 -H a:2 -x HOROVOD_CONTROLLER=mpi -x HOROVOD_CPU_OPERATIONS=mpi" + usual + ends + " ./a", ""},
		{"-np 2 -H a:2 --network-interfaces eth0,eth1 ./a",
			"-np 2 -H a:2 -x NCCL_SOCKET_IFNAME=eth0,eth1 -x HOROVOD_GLOO_IFACE=eth0 -mca btl_tcp_if_include eth0,eth1" + usual + ends + " ./a", ""},
		{"-np 2 -H a:2 --network-interface eth0 --network-interface eth1 ./a",
			"-np 2 -H a:2 -x NCCL_SOCKET_IFNAME=eth0,eth1 -x HOROVOD_GLOO_IFACE=eth0 -mca btl_tcp_if_include eth0,eth1" + usual + ends + " ./a", ""},
		{"-np 2 -H a:2 --fusion-threshold-mb 32 --cycle-time-ms 3.5 --no-hierarchical-allreduce --autotune --autotune-log-file /l ./a",
			"-np 2 -H a:2 -x HOROVOD_FUSION_THRESHOLD=33554432 -x HOROVOD_CYCLE_TIME=3.5 -x HOROVOD_HIERARCHICAL_ALLREDUCE=0 -x HOROVOD_AUTOTUNE=1 -x HOROVOD_AUTOTUNE_LOG=/l" + usual + ends + " ./a", ""},
		{"-np 2 -H a:2 --output-filename out -p 2222 -i key --disable-cache ./a", "-np 2 -H a:2 --output-filename out:nojobid --mca plm_rsh_args -i key" + usual + ends + " ./a", ""},
		{"-np 2 -H a:2 --binding-args=--bind-to_core --mpi-args --map-by_ppr:2:node ./a", "-np 2 -H a:2" + ends + " --bind-to core --map-by ppr:2:node ./a", ""},
		{"./a", "", "how many ranks? horovodrun wants -np"},
		{"-np 2", "", "which program?"},
		{"-np two ./a", "", "no number of ranks"},
		{"-np 0 ./a", "", "no number of ranks"},
		{"-np", "", "-np needs a value"},
		{"-np 2 -H a -hostfile f ./a", "", "the hosts are named already"},
		{"-np 2 --gloo --mpi ./a", "", "exclude each other"},
		{"--min-np 1 ./a", "", "how many ranks? horovodrun wants -np"},
		{"-np 2 --min-np 1 --mpi ./a", "", "--mpi: ranks of an elastic job meet by Gloo"},
		{"-np 2 --host-discovery-script ./d -H a:1 ./a", "", "--host-discovery-script says who the hosts are"},
		{"-np 2 --blacklist-cooldown-range 1", "", "--blacklist-cooldown-range needs 2 values"},
		{"-np 2 --blacklist-cooldown-range=1 2 ./a", "", "--blacklist-cooldown-range takes 2 values, in words of their own"}, // argparse: expected 2 arguments
		{"-np 2 --log-level LOUD ./a", "", "the levels are"},
		{"-np 2 --cache-capacity -1 ./a", "", "no whole number"},
		{"-np 2 --cycle-time-ms nan ./a", "", "no number of 0 or more"},
		{"-np 2 --gloo=yes ./a", "", "--gloo takes no value"},
		{"-np 2 --nonsense ./a", "", "unknown option --nonsense"},
		{"-np 2 --mpi-args=-x_A='b' ./a", "", "quotes"},
		{"-np 2 --network-interface eth0,, ./a", "", "an interface has a name"},
		{"-cb", "", "ask Horovod itself"},
	} {
		words := strings.Fields(tt.line)
		for i := range words {
			words[i] = strings.ReplaceAll(words[i], "_", " ")
		}
		l, err := ParseHorovodrun(words)
		if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: error %v, want %q", tt.line, err, tt.err)
		}
		if got := strings.Join(slices.Concat(l.Words, l.Program), " "); got != tt.want {
			t.Errorf("%s:\n%s, want\n%s", tt.line, got, tt.want)
		}
	}
}

func TestWhatIsForTheRunOfHorovodrun(t *testing.T) {
	l, err := ParseHorovodrun(strings.Fields("-np 2 --gloo --start-timeout 90 -p 22 ./a"))
	if err != nil || !l.Gloo || l.MPI || l.Start != 90*time.Second || len(l.Read.Line.Without) != 1 || l.Read.Line.Without[0] != "-p 22" {
		t.Errorf("%+v, %v", l, err)
	}
	for _, word := range []string{"--version", "-v", "--help", "-h"} { // argparse looks no further
		if l, err := ParseHorovodrun([]string{word, "--bogus"}); err != nil || !l.Read.Line.Version && !l.Read.Line.Help {
			t.Errorf("%s: %+v, %v", word, l, err)
		}
	}
}

// What Horovod's own launcher is told of an elastic job: all but the hosts, which mpiup finds.
func TestElasticLines(t *testing.T) {
	for _, tt := range []struct {
		line, own, hosts string
		scripted         bool
	}{
		{"-np 2 --min-np 1 --max-np=3 -H a:1,b:1 --gloo ./a -H x", "-np 2 --min-np 1 --max-np=3 --gloo", "--host a:1,b:1", false},
		{"--hostfile=f -np 2 --blacklist-cooldown-range 1 2 -p 22 ./a", "-np 2 --blacklist-cooldown-range 1 2 -p 22", "--hostfile f", false},
		{"-np 2 --host-discovery-script ./d ./a", "-np 2 --host-discovery-script ./d", "", true},
	} {
		l, err := ParseHorovodrun(strings.Fields(tt.line))
		if err != nil || !l.Elastic || strings.Join(l.Own, " ") != tt.own || strings.Join(l.Hosts, " ") != tt.hosts || l.Scripted != tt.scripted || l.Program[0] != "./a" || l.Words != nil {
			t.Errorf("%s: %+v, %v", tt.line, l, err)
		}
	}
}

func FuzzHorovodrun(f *testing.F) {
	f.Add("-np 2 -H a:2 --cycle-time-ms 5 ./a")
	f.Add("--network-interfaces eth0,eth1 -np 1 --mpi-args=--a b")
	f.Fuzz(func(t *testing.T, text string) {
		defer cost.Watch(t, cost.Parser, len(text))()
		words := strings.Split(text, " ")
		l, err := ParseHorovodrun(words)
		size := 0
		for _, w := range slices.Concat(l.Words, l.Program) {
			size += len(w)
		}
		if err == nil && size > 3*len(text)+4096 {
			t.Errorf("%d bytes of words of %d", size, len(text))
		}
	})
}
