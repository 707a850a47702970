package pmix_test

import (
	"testing"
	"testing/synctest"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

const cmdConstruct = 24

func constructing(name string, infos []bfrops.Info, procs ...bfrops.Proc) func(*bfrops.Writer) {
	return func(w *bfrops.Writer) {
		w.Group(bfrops.String, name)
		bfrops.PutCounted(w, bfrops.ProcType, procs)
		w.Infos(infos)
	}
}

// Members of a group, of two jobs on two hosts, get one context id for each group, and what each
// tells the others of it belongs to that group alone.
func TestGroupsOverJobs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMulti(t, 2, nil)
		defer m.stop()
		m.add([]int{0}, nil)
		m.add([]int{0}, []int{1})
		members := []bfrops.Proc{m.proc(0, 0), m.proc(1, 1)}
		here, there := m.connect(0, 0), m.connect(1, 1)
		defer here.nc.Close()
		defer there.nc.Close()
		for _, c := range []*raw{here, there} {
			if st := c.ask(100, cmdCommit, committing("key", "value")); st != 0 {
				t.Fatal(st)
			}
		}
		var ids []uint64
		for round := range uint64(3) {
			name := []string{"a", "b", "a"}[round]
			for i, c := range []*raw{here, there} {
				number := bfrops.Info{Key: "pmix.grp.lclid", Value: bfrops.Value{Type: bfrops.Size, Data: 10*round + uint64(i)}}
				infos := []bfrops.Info{{Key: "pmix.grp.info", Value: bfrops.Value{Type: bfrops.DataArray, Data: bfrops.NewInfos(number)}}}
				list := members
				if i == 1 {
					list = []bfrops.Proc{members[1], members[0]}
				}
				c.send(101, request(cmdConstruct, constructing(name, infos, list...)))
			}
			var got []uint64
			for _, c := range []*raw{here, there} {
				r := c.receive(101)
				if st := bfrops.One[int64](r, bfrops.Status); st != 0 {
					t.Fatal(st)
				}
				got = append(got, bfrops.One[uint64](r, bfrops.Size)) // as libpmix 4 reads it
			}
			if got[0] != got[1] {
				t.Errorf("group %s has context ids %v", name, got)
			}
			ids = append(ids, got[0])
		}
		if ids[0] == ids[1] || ids[0] == ids[2] || ids[1] == ids[2] {
			t.Errorf("context ids %v", ids)
		}
		for round, id := range ids {
			of := bfrops.Info{Key: "pmix.grp.ctxid", Flags: bfrops.InfoQualifier, Value: bfrops.Value{Type: bfrops.Size, Data: id}}
			here.send(102, request(cmdGet, getting(m.proc(1, 1), "pmix.grp.lclid", of)))
			st, _, values := here.values(102)
			if st != 0 || values["key"].Text() != "value" {
				t.Errorf("of group %d: %d, %v", round, st, values)
			}
		}
		none := bfrops.Info{Key: "pmix.grp.ctxid", Flags: bfrops.InfoQualifier, Value: bfrops.Value{Type: bfrops.Size, Data: uint64(1)}}
		if st := here.ask(103, cmdGet, getting(m.proc(1, 1), "pmix.grp.lclid", none)); st != -46 {
			t.Errorf("of no group: %d", st)
		}
	})
}

// Groups whose leaders name the other members, who name none, are refused: nobody waits for them.
func TestGroupsOfAddedMembers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMulti(t, 1, nil)
		defer m.stop()
		m.add([]int{0, 1})
		leader, added := m.connect(0, 0), m.connect(0, 1)
		defer leader.nc.Close()
		defer added.nc.Close()
		one := bfrops.Value{Type: bfrops.Size, Data: uint64(1)}
		for _, infos := range [][]bfrops.Info{
			{{Key: "pmix.grp.btstrp", Value: one}},
			{{Key: "pmix.grp.add", Value: bfrops.Value{Type: bfrops.DataArray, Data: bfrops.NewProcs(m.proc(0, 1))}}},
		} {
			if st := leader.ask(101, cmdConstruct, constructing("a", infos, m.proc(0, 0))); st != -47 {
				t.Errorf("%s: %d", infos[0].Key, st)
			}
		}
		if st := added.ask(101, cmdConstruct, constructing("a", nil)); st != -47 {
			t.Errorf("without members: %d", st)
		}
		if st := leader.ask(102, cmdConstruct, constructing("a", nil, m.proc(0, 0))); st != 0 {
			t.Errorf("of one: %d", st)
		}
	})
}

// A group that is made before the rank has committed does not count as a commit.
func TestGroupBeforeCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMulti(t, 1, nil)
		defer m.stop()
		m.add([]int{0, 1})
		c, other := m.connect(0, 0), m.connect(0, 1)
		defer c.nc.Close()
		defer other.nc.Close()
		number := bfrops.Info{Key: "pmix.grp.lclid", Value: bfrops.Value{Type: bfrops.Size, Data: uint64(1)}}
		infos := []bfrops.Info{{Key: "pmix.grp.info", Value: bfrops.Value{Type: bfrops.DataArray, Data: bfrops.NewInfos(number)}}}
		if st := c.ask(101, cmdConstruct, constructing("g", infos, m.proc(0, 0))); st != 0 {
			t.Fatal(st)
		}
		other.send(101, request(cmdGet, getting(m.proc(0, 0), "key")))
		synctest.Wait()
		if st := c.ask(102, cmdCommit, committing("key", "value")); st != 0 {
			t.Fatal(st)
		}
		if st, _, values := other.values(101); st != 0 || values["key"].Text() != "value" || values["pmix.qual.val"].Type != bfrops.DataArray {
			t.Errorf("status %d, %v", st, values)
		}
	})
}
