package pmix

import (
	"iter"
	"strconv"
	"strings"
	"sync"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// jobData is the answer to REQ, packed once for each dialect and kind of buffer that clients of
// this host use. Types are as openpmix include/pmix_common.h says: Open MPI reads values by
// the type it expects.
type jobData struct {
	job *namespace

	mu   sync.Mutex
	made map[jobDataKind][]byte // guarded by mu
}

type jobDataKind struct {
	dialect *bfrops.Dialect
	desc    bool
	others  bool // for ranks of other jobs: without what is theirs already
}

func (d *jobData) packed(k jobDataKind) ([]byte, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if b, ok := d.made[k]; ok {
		return b, nil
	}
	w := bfrops.NewWriter(k.dialect, k.desc, nil)
	d.job.pack(w, k.others)
	b, err := w.Bytes()
	if err != nil {
		return nil, err
	}
	if d.made == nil {
		d.made = map[jobDataKind][]byte{}
	}
	d.made[k] = b
	return b, nil
}

func (j *namespace) pack(w *bfrops.Writer, others bool) {
	j.packJob(w)
	if !others {
		j.packHost(w)
	}
	j.packOwnHost(w)
	for i := range j.Hosts {
		w.KVal("pmix.node.arr", bfrops.DataArray, j.hostArray(i))
	}
	j.packMap(w)
	j.packApps(w)
	j.packRanks(w)
}

func (j *namespace) packApps(w *bfrops.Writer) {
	apps := j.appSizes()
	for i := range apps {
		w.KVal("pmix.app.arr", bfrops.DataArray, bfrops.NewInfos(
			info("pmix.appnum", bfrops.Uint32, uint64(i)),
			info("pmix.app.size", bfrops.Uint32, uint64(apps[i])),
			info("pmix.aldr", bfrops.ProcRank, uint64(j.firstOf(i))),
		))
	}
}

// packJob is what is true of the whole job.
func (j *namespace) packJob(w *bfrops.Writer) {
	size := uint64(j.Size)
	universe := max(uint64(max(j.Universe, 0)), size)
	apps := j.appSizes()
	w.KVal("pmix.jobid", bfrops.String, j.Namespace)
	w.KVal("pmix.job.size", bfrops.Uint32, size)
	w.KVal("pmix.max.size", bfrops.Uint32, size)
	w.KVal("pmix.univ.size", bfrops.Uint32, universe)
	w.KVal("pmix.num.nodes", bfrops.Uint32, uint64(len(j.Hosts)))
	w.KVal("pmix.job.napps", bfrops.Uint32, uint64(len(apps)))
	w.KVal("pmix.spawned", bfrops.Bool, j.Parent != nil)
	if j.Parent != nil {
		w.KVal("pmix.parent", bfrops.ProcType, j.parent)
	}
	names := make([]string, len(j.Hosts))
	for i, h := range j.Hosts {
		names[i] = h.Name
	}
	w.KVal("pmix.nlist", bfrops.String, strings.Join(names, ","))
	if j.Mapping != "" {
		w.KVal("pmix.anlmap", bfrops.String, j.Mapping)
	}
	if j.MapBy != "" {
		w.KVal("pmix.mapby", bfrops.String, j.MapBy)
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
func (j *namespace) packHost(w *bfrops.Writer) {
	if j.cfg.SessionDir != "" {
		w.KVal("pmix.tmpdir", bfrops.String, j.cfg.SessionDir)
		w.KVal("pmix.nsdir", bfrops.String, j.cfg.SessionDir)
		w.KVal("pmix.tdir.rmclean", bfrops.Bool, true)
	}
	if j.Crowded {
		w.KVal("pmix.ndosub", bfrops.Bool, true)
	}
	if j.cfg.HwlocXML != "" {
		w.KVal("pmix.hwlocxml2", bfrops.String, j.cfg.HwlocXML)
	}
}

// packOwnHost is who is on this host. Clients before 3.1.5 know only these, later ones the
// arrays as well.
func (j *namespace) packOwnHost(w *bfrops.Writer) {
	if j.Here < 0 {
		return
	}
	h := j.Hosts[j.Here]
	procs := bfrops.Array{Type: bfrops.ProcType, Data: make([]any, len(h.Ranks))}
	for i, r := range h.Ranks {
		procs.Data[i] = bfrops.Proc{Namespace: j.Namespace, Rank: uint32(r)}
	}
	w.KVal("pmix.lpeers", bfrops.String, join(h.Ranks, ","))
	w.KVal("pmix.lprocs", bfrops.DataArray, procs)
	w.KVal("pmix.local.size", bfrops.Uint32, uint64(len(h.Ranks)))
	w.KVal("pmix.node.size", bfrops.Uint32, uint64(len(h.Ranks)))
	if len(h.Ranks) > 0 {
		w.KVal("pmix.lldr", bfrops.ProcRank, uint64(h.Ranks[0]))
	}
}

func (j *namespace) hostArray(i int) bfrops.Array {
	h := j.Hosts[i]
	infos := []bfrops.Info{
		info("pmix.hname", bfrops.String, h.Name),
		info("pmix.nodeid", bfrops.Uint32, uint64(i)),
		info("pmix.lpeers", bfrops.String, join(h.Ranks, ",")),
		info("pmix.local.size", bfrops.Uint32, uint64(len(h.Ranks))),
		info("pmix.node.size", bfrops.Uint32, uint64(len(h.Ranks))),
	}
	if len(h.Ranks) > 0 {
		infos = append(infos, info("pmix.lldr", bfrops.ProcRank, uint64(h.Ranks[0])))
	}
	return bfrops.NewInfos(infos...)
}

// packMap is host names and their ranks, as clients before 3.1.5 read them; all of those speak a
// dialect of fixed width.
func (j *namespace) packMap(w *bfrops.Writer) {
	if !w.Dialect().Fixed() {
		return
	}
	m := w.Like()
	m.Group(bfrops.Size, uint64(len(j.Hosts)))
	for _, h := range j.Hosts {
		m.KVal(h.Name, bfrops.String, join(h.Ranks, ","))
	}
	j.blob(w, "pmix.mblob", m)
}

// packRanks is a blob for each rank of the job: its number, then its values.
func (j *namespace) packRanks(w *bfrops.Writer) {
	b := w.Like()
	for p := range j.places() {
		b.Reset()
		b.Group(bfrops.ProcRank, uint64(p.rank))
		for _, v := range j.rankValues(p) {
			b.KVal(v.Key, v.Value.Type, v.Value.Data)
		}
		j.blob(w, "pmix.pblob", b)
	}
}

// rankPlace is where a rank is.
type rankPlace struct {
	rank, host, local int // local: its place on its host
	inApp             int // and in its program
}

// places are all ranks, by host.
func (j *namespace) places() iter.Seq[rankPlace] {
	return func(yield func(rankPlace) bool) {
		counts := map[int]int{}
		inApp := make([]int, j.Size)
		for r := range inApp {
			inApp[r] = counts[j.appOf(r)]
			counts[j.appOf(r)]++
		}
		for i, h := range j.Hosts {
			for l, r := range h.Ranks {
				if !yield(rankPlace{r, i, l, inApp[r]}) {
					return
				}
			}
		}
	}
}

// rankValues is what is true of one rank.
func (j *namespace) rankValues(p rankPlace) []bfrops.KVal {
	value := func(key string, t bfrops.Type, data any) bfrops.KVal {
		return bfrops.KVal{Key: key, Value: bfrops.Value{Type: t, Data: data}}
	}
	values := []bfrops.KVal{
		value("pmix.hname", bfrops.String, j.Hosts[p.host].Name),
		value("pmix.nodeid", bfrops.Uint32, uint64(p.host)),
		value("pmix.lrank", bfrops.Uint16, uint64(p.local)),
		value("pmix.nrank", bfrops.Uint16, uint64(p.local)),
		value("pmix.appnum", bfrops.Uint32, uint64(j.appOf(p.rank))),
		value("pmix.reinc", bfrops.Uint32, uint64(0)),
		value("pmix.grank", bfrops.ProcRank, uint64(p.rank)),
		value("pmix.apprank", bfrops.ProcRank, uint64(p.inApp)),
	}
	if j.Parent != nil { // PRRTE has it here, and libpmix 7 looks nowhere else for a rank's own
		values = append(values, value("pmix.parent", bfrops.ProcType, j.parent))
	}
	if p.host != j.Here || j.Binding == nil {
		return values
	}
	locstr, cpuset := j.Binding(p.rank)
	if locstr != "" {
		values = append(values, value("pmix.locstr", bfrops.String, locstr))
	}
	if cpuset != "" {
		values = append(values, value("pmix.cpuset", bfrops.String, cpuset))
	}
	return values
}

func (j *namespace) blob(w *bfrops.Writer, key string, groups *bfrops.Writer) {
	b, err := groups.Bytes()
	if err != nil {
		w.Fail(err)
		return
	}
	w.KVal(key, bfrops.ByteObject, b)
}

func (j *namespace) appOf(rank int) int {
	if j.Apps == nil {
		return 0
	}
	return j.Apps[rank]
}

func (j *namespace) appSizes() []int {
	var sizes []int
	for r := range j.Size {
		app := j.appOf(r)
		for len(sizes) <= app {
			sizes = append(sizes, 0)
		}
		sizes[app]++
	}
	return sizes
}

// firstOf is the lowest rank of a program.
func (j *namespace) firstOf(app int) int {
	for r := range j.Size {
		if j.appOf(r) == app {
			return r
		}
	}
	return 0
}

func info(key string, t bfrops.Type, data any) bfrops.Info {
	return bfrops.Info{Key: key, Value: bfrops.Value{Type: t, Data: data}}
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
