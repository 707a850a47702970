package pmix_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

const cmdQuery, cmdDestruct = 15, 28

func querying(keys ...string) func(*bfrops.Writer) { return queryingOf(nil, keys...) }

func queryingOf(qualifiers []bfrops.Info, keys ...string) func(*bfrops.Writer) {
	return func(w *bfrops.Writer) {
		bfrops.PutCounted(w, bfrops.QueryType, []bfrops.Query{{Keys: keys, Qualifiers: qualifiers}})
	}
}

func TestQuery(t *testing.T) {
	m := newMulti(t, 2, func(cfg *pmix.Config) {
		cfg.HwlocXML = "<topology/>"
		cfg.Process = func(id int) (int, string) { return 100 + id, "/bin/x" }
	})
	defer m.stop()
	m.add([]int{0}, []int{1})
	m.add([]int{0, 1}, []int{2})
	c := m.connect(0, 0)
	defer c.nc.Close()
	m.star.jobs[1].spaces[0].RankGone(1, "ended")
	other := []bfrops.Info{text("pmix.nspace", m.jobs[1].Namespace)}
	for _, tt := range []struct {
		key        string
		qualifiers []bfrops.Info
		want       any
	}{
		{"pmix.qry.ns", nil, m.jobs[0].Namespace + "," + m.jobs[1].Namespace},
		{"pmix.job.size", nil, uint64(2)},
		{"pmix.job.size", other, uint64(3)},
		{"pmix.local.size", other, uint64(2)},
		{"pmix.num.nodes", nil, uint64(2)},
		{"pmix.qry.psetnum", nil, uint64(0)},
		{"pmix.qry.psets", nil, ""},
		{"pmix.hwlocxml2", nil, "<topology/>"},
	} {
		r := c.wants(101, cmdQuery, 0, queryingOf(tt.qualifiers, tt.key))
		if infos := r.Infos(); len(infos) != 1 || infos[0].Key != tt.key || infos[0].Value.Data != tt.want {
			t.Errorf("%s: %v", tt.key, infos)
		}
	}
	for key, want := range map[string][]bfrops.ProcInfo{
		"pmix.qry.lptable": {
			{Proc: m.proc(1, 0), Host: "w0", Exe: "/bin/x", PID: 102, State: 5}, {Proc: m.proc(1, 1), Host: "w0", Exe: "/bin/x", PID: 103, State: 20}},
		"pmix.qry.ptable": {
			{Proc: m.proc(1, 0), Host: "w0", Exe: "/bin/x", PID: 102, State: 5}, {Proc: m.proc(1, 1), Host: "w0", Exe: "/bin/x", PID: 103, State: 20}, {Proc: m.proc(1, 2), Host: "w1", State: 5}},
	} {
		infos := c.wants(102, cmdQuery, 0, queryingOf(other, key)).Infos()
		table := infos[0].Value.Data.(bfrops.Array).Data
		if len(table) != len(want) {
			t.Fatalf("%s: %v", key, table)
		}
		for i := range want {
			if table[i] != any(want[i]) {
				t.Errorf("%s: %v, want %v", key, table[i], want[i])
			}
		}
	}
	if infos := c.wants(103, cmdQuery, -52, querying("pmix.job.size", "what")).Infos(); len(infos) != 1 {
		t.Errorf("%v", infos)
	}
	many := append(slices.Repeat([]string{"pmix.qry.ptable", "pmix.hwlocxml2"}, 100), "pmix.job.size")
	if infos := c.wants(103, cmdQuery, -52, querying(many...)).Infos(); len(infos) != 5 {
		t.Errorf("%d facts of a query that asks for tables 200 times", len(infos))
	}
	c.wants(104, cmdQuery, -47, querying("what"))
	c.wants(105, cmdQuery, -46, queryingOf([]bfrops.Info{text("pmix.nspace", "other")}, "pmix.job.size"))
	c.wants(106, cmdQuery, -46, queryingOf([]bfrops.Info{text("pmix.grp.id", "none")}, "pmix.qry.pgrpmems"))
	keys := c.wants(107, cmdQuery, 0, querying("pmix.qry.keys")).Infos()
	if list := strings.Split(keys[0].Value.Text(), ","); len(list) < 10 || !slices.Contains(list, "pmix.qry.nsinfo") {
		t.Errorf("keys %q", list)
	}
}

// What prted's clients read of it: per job its name, its command line, its size, and then its processes.
func TestQueryOfAllJobs(t *testing.T) {
	m := newMulti(t, 2, nil)
	defer m.stop()
	m.add([]int{0}, []int{1})
	c := m.connect(0, 0)
	defer c.nc.Close()
	jobs := c.wants(101, cmdQuery, 0, querying("pmix.qry.nsinfo")).Infos()[0].Value.Data.(bfrops.Array)
	if len(jobs.Data) != 1 || jobs.Data[0].(bfrops.Info).Key != "pmix.job.arr" {
		t.Fatalf("%v", jobs)
	}
	var got []string
	for _, i := range jobs.Data[0].(bfrops.Info).Value.Data.(bfrops.Array).Data {
		got = append(got, fmt.Sprint(i.(bfrops.Info).Key, "=", i.(bfrops.Info).Value.Data))
	}
	want := []string{"pmix.nspace=" + m.jobs[0].Namespace, "pmix.cmd.line=/bin/x 1", "pmix.job.size=2"}
	if len(got) != 5 || !slices.Equal(got[:3], want) || !strings.Contains(got[4], "pmix.hname") || !strings.Contains(got[4], "w1") {
		t.Errorf("%q", got)
	}
}

// A group is known while a member of this host is in it.
func TestQueryOfGroups(t *testing.T) {
	m := newMulti(t, 1, nil)
	defer m.stop()
	m.add([]int{0, 1, 2})
	a, b, other := m.connect(0, 0), m.connect(0, 1), m.connect(0, 2)
	defer a.nc.Close()
	defer other.nc.Close()
	groups := func() string {
		return fmt.Sprint(other.wants(110, cmdQuery, 0, querying("pmix.qry.pgrp")).Infos()[0].Value.Data.(bfrops.Array).Data)
	}
	construct := func(name string) {
		for _, c := range []*raw{a, b} {
			c.send(101, request(cmdConstruct, constructing(name, nil, m.proc(0, 0), m.proc(0, 1))))
		}
		for _, c := range []*raw{a, b} {
			if st := bfrops.One[int64](c.receive(101), bfrops.Status); st != 0 {
				t.Fatal(st)
			}
		}
	}
	construct("one")
	construct("two")
	if got := groups(); got != "[one two]" {
		t.Errorf("groups %s", got)
	}
	of := queryingOf([]bfrops.Info{text("pmix.grp.id", "one")}, "pmix.qry.pgrpmems")
	if got := other.wants(111, cmdQuery, 0, of).Infos()[0].Value.Data.(bfrops.Array); !slices.Equal(got.Data, []any{m.proc(0, 0), m.proc(0, 1)}) {
		t.Errorf("members %v", got)
	}
	for _, c := range []*raw{a, b} {
		c.wants(102, cmdDestruct, 0, func(w *bfrops.Writer) { w.Group(bfrops.String, "one"); w.Infos(nil) })
	}
	if got := groups(); got != "[two]" {
		t.Errorf("after its end: groups %s", got)
	}
}
