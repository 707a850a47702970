package pmi

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/pmi/kvs"

	"github.com/mpiup/mpiup/internal/job"
)

func TestInfoKeys(t *testing.T) {
	for _, tt := range []struct {
		key, value string
		want       job.SpawnProgram // besides the name and 4 processes
		err        string           // part of it
	}{
		{key: "host", value: "w0,w1:2", want: job.SpawnProgram{Hosts: []string{"w0", "w1:2"}}},
		{key: "hosts", value: " w0, w1 ", want: job.SpawnProgram{Hosts: []string{"w0", "w1"}}},
		{key: "add-host", value: "w2", want: job.SpawnProgram{AddHosts: []string{"w2"}}},
		{key: "hostfile", value: "/etc/hosts of mine", want: job.SpawnProgram{Hostfile: "/etc/hosts of mine"}},
		{key: "add_hostfile", value: "more", want: job.SpawnProgram{AddHostfile: "more"}},
		{key: "wdir", value: "/tmp/a b", want: job.SpawnProgram{Dir: "/tmp/a b"}},
		{key: "env", value: "A=1\nB=two words\n", want: job.SpawnProgram{Env: []string{"A=1", "B=two words"}}},
		{key: "map-by", value: "PPR:2:Node", want: job.SpawnProgram{MapBy: "ppr:2:node"}},
		{key: "ppn", value: "2", want: job.SpawnProgram{PerHost: 2}},
		{key: "npernode", value: "0", err: "no number"},
		{key: "path", value: "/opt/bin/", want: job.SpawnProgram{Argv: []string{"/opt/bin/worker"}}},
		{key: "path", value: "/a:/b", err: "one directory"},
		{key: "soft", value: "1:3", want: job.SpawnProgram{Procs: 3}},
		{key: "soft", value: "many", err: "no number or range"},
		{key: "arch", value: "x86_64"},
		{key: "file", value: "x"},
	} {
		t.Run(tt.key+"="+tt.value, func(t *testing.T) {
			p := job.SpawnProgram{Argv: []string{"worker"}, Procs: 4}
			err := inform(&p, tt.key, tt.value)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("got %v", err)
				}
				return
			}
			if tt.want.Argv == nil {
				tt.want.Argv = []string{"worker"}
			}
			if tt.want.Procs == 0 {
				tt.want.Procs = 4
			}
			if err != nil || !reflect.DeepEqual(p, tt.want) {
				t.Errorf("got %+v, %v", p, err)
			}
		})
	}
}

func TestSoft(t *testing.T) {
	for _, tt := range []struct {
		soft  string
		limit int
		want  int // 0: refused
	}{
		{"4", 4, 4}, {"5", 4, 0}, {"0", 4, 0}, {"-3", 4, 0}, {"1,3,9", 4, 3},
		{"1:4", 4, 4}, {"1:100", 4, 4}, {"2:10:2", 5, 4}, {"2:10:3", 10, 8}, {"10:2:-3", 10, 10}, {"10:2:-3", 9, 7},
		{"9:1", 9, 0}, {"1:9:-1", 9, 0}, {"1:9:0", 9, 0}, {"-5:3:2", 9, 3}, {"1:2:3:4", 9, 0},
		{"", 4, 0}, {"x", 4, 0}, {"1:", 4, 0}, {"1073741825", 4, 0}, {"1:1073741824", 65536, 65536},
	} {
		if n, err := largest(tt.soft, tt.limit); n != tt.want || (err == nil) != (tt.want > 0) {
			t.Errorf("%q up to %d: got %d, %v; want %d", tt.soft, tt.limit, n, err, tt.want)
		}
	}
}

func TestParseGroup(t *testing.T) {
	space := &kvs.Space{Job: kvs.Job{Base: 10, Size: 6, Local: []int{4, 5}}}
	for _, tt := range []struct{ text, want string }{ // "": an error
		{"", "[] 0 false"}, {"WORLD", "[] 0 false"}, {"WORLD:7", "[] 7 false"},
		{"NODE:3", "[14-15] 3 true"}, {"NODE", "[14-15] 0 true"},
		{"3,0,2:12", "[10,12-13] 12 false"}, {"5", "[15] 0 false"}, {"6", ""},
		{":5", "[] 5 false"}, {"0-3:1", ""}, {"0,:1", ""}, {"0,-1", ""}, {"0:x", ""}, {"0:-1", ""}, {"world:1", ""}, {"0,1:2:3", ""},
	} {
		g, err := parseGroup(tt.text, space)
		got := fmt.Sprint("[", g.set, "] ", g.tag, " ", g.local)
		if tt.want == "" && err == nil || tt.want != "" && (err != nil || got != tt.want) {
			t.Errorf("%q: got %s, %v; want %q", tt.text, got, err, tt.want)
		}
	}
}

func TestGroupBarriers(t *testing.T) {
	for _, tt := range []struct {
		argv, env string
		want      bool
	}{
		{"./a.out -n 3", "A=b", true}, {"flux start x", "", false}, {"numactl /usr/bin/flux start", "", false},
		{"flux-broker", "", false}, {"./fluxes", "", true}, {"./a.out", "A=b PMI_SUBVERSION=1", false}, {"./a.out", "PMI_SUBVERSION=2", true},
	} {
		if got := GroupBarriers(strings.Fields(tt.argv), strings.Fields(tt.env)); got != tt.want {
			t.Errorf("%s (%s): %v", tt.argv, tt.env, got)
		}
	}
}
