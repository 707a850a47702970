package pmix_test

import (
	"testing"

	"github.com/mpiup/mpiup/pmi/pmix"
	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

const cmdQuery = 15

func querying(keys ...string) func(*bfrops.Writer) { return queryingOf(nil, keys...) }

func queryingOf(qualifiers []bfrops.Info, keys ...string) func(*bfrops.Writer) {
	return func(w *bfrops.Writer) {
		bfrops.PutCounted(w, bfrops.QueryType, []bfrops.Query{{Keys: keys, Qualifiers: qualifiers}})
	}
}

func TestQuery(t *testing.T) {
	m := newMulti(t, 2, func(cfg *pmix.Config) { cfg.HwlocXML = "<topology/>" })
	defer m.stop()
	m.add([]int{0}, []int{1})
	m.add([]int{0, 1}, []int{2})
	c := m.connect(0, 0)
	defer c.nc.Close()
	m.star.jobs[1].engines[0].RankGone(1, "ended")
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
			{Proc: m.proc(1, 0), Host: "w0", State: 5}, {Proc: m.proc(1, 1), Host: "w0", State: 20}},
		"pmix.qry.ptable": {
			{Proc: m.proc(1, 0), Host: "w0", State: 5}, {Proc: m.proc(1, 1), Host: "w0", State: 20}, {Proc: m.proc(1, 2), Host: "w1", State: 5}},
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
	c.wants(104, cmdQuery, -46, querying("what"))
	c.wants(105, cmdQuery, -46, queryingOf([]bfrops.Info{text("pmix.nspace", "other")}, "pmix.job.size"))
}
