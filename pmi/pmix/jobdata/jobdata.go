package jobdata

import (
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// Pack is what ranks are told first of all. m is nil for ranks of other jobs, which know their host already.
func (j *Job) Pack(w *bfrops.Writer, m *Machine) {
	j.packJob(w)
	if m != nil {
		j.packHost(w, m)
	}
	j.packOwnHost(w)
	j.packHosts(w)
	j.packMap(w)
	j.packApps(w)
	j.packRanks(w)
}

// PackJob is what is true of a job as a whole, and of each of its ranks, for a rank of another job that asks.
func (j *Job) PackJob(w *bfrops.Writer) {
	w.Group(bfrops.ProcType, bfrops.Proc{Namespace: j.Namespace, Rank: bfrops.RankWildcard})
	j.packJob(w)
	j.packOwnHost(w)
	j.packHosts(w)
	j.packApps(w)
	for p := range j.Places() {
		infos := []bfrops.Info{bfrops.NewInfo("pmix.rank", bfrops.ProcRank, uint64(p.Rank))}
		for _, v := range j.rankValues(p) {
			infos = append(infos, bfrops.NewInfo(v.Key, v.Value.Type, v.Value.Data))
		}
		w.KVal("pmix.pdata", bfrops.DataArray, bfrops.NewInfos(infos...))
	}
}

// PackRank is what is true of one rank, for a rank that asks.
func (j *Job) PackRank(w *bfrops.Writer, rank int) {
	w.Group(bfrops.ProcType, j.Proc(rank))
	for p := range j.Places() {
		if p.Rank == rank {
			packValues(w, j.rankValues(p))
		}
	}
}

func (j *Job) packApps(w *bfrops.Writer) {
	apps := j.appSizes()
	for i := range apps {
		w.KVal("pmix.app.arr", bfrops.DataArray, bfrops.NewInfos(
			bfrops.NewInfo("pmix.appnum", bfrops.Uint32, uint64(i)),
			bfrops.NewInfo("pmix.app.size", bfrops.Uint32, uint64(apps[i])),
			bfrops.NewInfo("pmix.aldr", bfrops.ProcRank, uint64(j.firstOf(i))),
		))
	}
}

// packJob is what is true of the whole job.
func (j *Job) packJob(w *bfrops.Writer) {
	size := uint64(j.Size)
	universe := max(uint64(max(j.Universe, 0)), size)
	apps := j.appSizes()
	w.KVal("pmix.jobid", bfrops.String, j.Namespace)
	w.KVal("pmix.job.size", bfrops.Uint32, size)
	w.KVal("pmix.max.size", bfrops.Uint32, size)
	w.KVal("pmix.univ.size", bfrops.Uint32, universe)
	w.KVal("pmix.num.nodes", bfrops.Uint32, uint64(len(j.Hosts)))
	w.KVal("pmix.job.napps", bfrops.Uint32, uint64(len(apps)))
	w.KVal("pmix.spawned", bfrops.Bool, j.spawned())
	if j.spawned() {
		w.KVal("pmix.parent", bfrops.ProcType, j.Parent)
	}
	names := make([]string, len(j.Hosts))
	for i, h := range j.Hosts {
		names[i] = h.Name
	}
	w.KVal("pmix.nlist", bfrops.String, strings.Join(names, ","))
	if j.Mapping != "" {
		w.KVal("pmix.anlmap", bfrops.String, j.Mapping)
	}
	if len(apps) > 1 { // Open MPI 5 asks for these by its own names
		firsts := make([]int, len(apps))
		for i := range apps {
			firsts[i] = j.firstOf(i)
		}
		w.KVal("OMPI_APP_SIZES", bfrops.String, join(apps, " "))
		w.KVal("OMPI_FIRST_RANKS", bfrops.String, join(firsts, " "))
	}
}

// packHost is what a rank finds on its host.
func (j *Job) packHost(w *bfrops.Writer, m *Machine) {
	if m.SessionDir != "" {
		w.KVal("pmix.tmpdir", bfrops.String, m.SessionDir)
		w.KVal("pmix.nsdir", bfrops.String, m.SessionDir)
		w.KVal("pmix.tdir.rmclean", bfrops.Bool, true)
	}
	if j.Crowded {
		w.KVal("pmix.ndosub", bfrops.Bool, true)
	}
	if m.HwlocXML != "" {
		w.KVal("pmix.hwlocxml2", bfrops.String, m.HwlocXML)
	}
}

// packOwnHost is who is on this host. Clients before 3.1.5 know only these, later ones the
// arrays as well.
func (j *Job) packOwnHost(w *bfrops.Writer) {
	if j.Here < 0 {
		return
	}
	h := j.Hosts[j.Here]
	procs := make([]bfrops.Proc, len(h.Ranks))
	for i, r := range h.Ranks {
		procs[i] = j.Proc(r)
	}
	w.KVal("pmix.lpeers", bfrops.String, join(h.Ranks, ","))
	w.KVal("pmix.lprocs", bfrops.DataArray, bfrops.NewProcs(procs...))
	w.KVal("pmix.local.size", bfrops.Uint32, uint64(len(h.Ranks)))
	w.KVal("pmix.node.size", bfrops.Uint32, uint64(len(h.Ranks)))
	if len(h.Ranks) > 0 {
		w.KVal("pmix.lldr", bfrops.ProcRank, uint64(h.Ranks[0]))
	}
}

func (j *Job) packHosts(w *bfrops.Writer) {
	for i, h := range j.Hosts {
		infos := []bfrops.Info{
			bfrops.NewInfo("pmix.hname", bfrops.String, h.Name),
			bfrops.NewInfo("pmix.nodeid", bfrops.Uint32, uint64(i)),
			bfrops.NewInfo("pmix.lpeers", bfrops.String, join(h.Ranks, ",")),
			bfrops.NewInfo("pmix.local.size", bfrops.Uint32, uint64(len(h.Ranks))),
			bfrops.NewInfo("pmix.node.size", bfrops.Uint32, uint64(len(h.Ranks))),
		}
		if len(h.Ranks) > 0 {
			infos = append(infos, bfrops.NewInfo("pmix.lldr", bfrops.ProcRank, uint64(h.Ranks[0])))
		}
		w.KVal("pmix.node.arr", bfrops.DataArray, bfrops.NewInfos(infos...))
	}
}

// packMap is host names and their ranks, as clients before 3.1.5 read them; all of those speak a
// dialect of fixed width.
func (j *Job) packMap(w *bfrops.Writer) {
	if !w.Dialect().Fixed() {
		return
	}
	m := w.Like()
	m.Group(bfrops.Size, uint64(len(j.Hosts)))
	for _, h := range j.Hosts {
		m.KVal(h.Name, bfrops.String, join(h.Ranks, ","))
	}
	packBlob(w, "pmix.mblob", m)
}

// packRanks is a blob for each rank of the job: its number, then its values.
func (j *Job) packRanks(w *bfrops.Writer) {
	b := w.Like()
	for p := range j.Places() {
		b.Reset()
		b.Group(bfrops.ProcRank, uint64(p.Rank))
		packValues(b, j.rankValues(p))
		packBlob(w, "pmix.pblob", b)
	}
}

func packValues(w *bfrops.Writer, values []bfrops.KVal) {
	for _, v := range values {
		w.KVal(v.Key, v.Value.Type, v.Value.Data)
	}
}

func packBlob(w *bfrops.Writer, key string, groups *bfrops.Writer) {
	b, err := groups.Bytes()
	if err != nil {
		w.Fail(err)
		return
	}
	w.KVal(key, bfrops.ByteObject, b)
}

func join(numbers []int, sep string) string {
	var b []byte
	for i, n := range numbers {
		if i > 0 {
			b = append(b, sep...)
		}
		b = strconv.AppendInt(b, int64(n), 10)
	}
	return string(b)
}
