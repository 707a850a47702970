package discover

import (
	"slices"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/idset"
	"github.com/mpiup/mpiup/topology"
)

const cpuDir = "sys/devices/system/cpu"

// maxCPU is the largest CPU number Linux can be built for on any machine (NR_CPUS 8192).
const maxCPU = 8191

// readCPUs finds the CPUs and what they are part of. A CPU without a topology directory is one
// that the kernel is just bringing up or down, unless none has one: then all are alike.
func (r *reader) readCPUs() error {
	p := &r.parts
	p.Present = r.fs.Numbers(cpuDir, "cpu", maxCPU)
	online, err := r.fs.List(cpuDir + "/online")
	switch {
	case err != nil:
		online = p.Present
	case !p.Present.Empty():
		online = online.Intersect(p.Present)
	}
	if online.Empty() {
		online = p.Affinity
	}
	if online.Empty() || online.Last() > maxCPU {
		return errNoCPU
	}
	places := r.newPlaceReader(online.First())
	for cpu := range online.All() {
		if places.read(cpu) {
			p.Online.Add(cpu)
		}
	}
	if p.Online.Empty() {
		p.Online = online
	}
	caches := cacheReader{r: r, known: make(map[string]topology.Cache)}
	for cpu := range p.Online.All() {
		caches.read(cpu)
	}
	r.readKinds()
	return nil
}

// placeReader reads what each CPU is part of. Files are read at the first CPU of each part.
type placeReader struct {
	r         *reader
	core, pkg string       // what this kernel calls the files of cpuN/topology
	cores     idset.Set    // CPUs whose core is known
	outer     [3]idset.Set // and their cluster, die, package
}

// newPlaceReader finds the files' names: Linux 5.3 added new ones; the old ones remain.
func (r *reader) newPlaceReader(cpu int) *placeReader {
	if r.fs.Exists(cpuPath(cpu) + "/topology/package_cpus") {
		return &placeReader{r: r, core: "core_cpus", pkg: "package_cpus"}
	}
	return &placeReader{r: r, core: "thread_siblings", pkg: "core_siblings"}
}

func cpuPath(cpu int) string { return cpuDir + "/cpu" + strconv.Itoa(cpu) }

// read notes the core, cluster, die and package of a CPU where it is the first CPU we see of it.
// It is false for a CPU without topology.
func (pr *placeReader) read(cpu int) bool {
	if pr.cores.Contains(cpu) {
		return true // with its core, its place is known
	}
	p, dir := &pr.r.parts, cpuPath(cpu)+"/topology"
	core, err := pr.r.fs.Mask(dir + "/" + pr.core)
	if err != nil && !pr.r.fs.Exists(dir) {
		return false
	}
	if err == nil && core.Contains(cpu) {
		pr.addCore(cpu, core)
	}
	for i, kind := range []struct {
		list     *[]topology.Part
		cpus, id string
		least    int // CPUs of one that means something
	}{
		{&p.Clusters, "cluster_cpus", "cluster_id", 2}, // since Linux 5.16
		{&p.Dies, "die_cpus", "die_id", 2},             // since Linux 5.2; the CPU itself where there are none
		{&p.Packages, pr.pkg, "physical_package_id", 1},
	} {
		if pr.outer[i].Contains(cpu) {
			continue
		}
		cpus, err := pr.r.fs.Mask(dir + "/" + kind.cpus)
		if err != nil || !cpus.Contains(cpu) {
			continue
		}
		if pr.outer[i] = pr.outer[i].Union(cpus); cpus.Len() >= kind.least {
			*kind.list = append(*kind.list, topology.Part{OS: pr.r.id(dir + "/" + kind.id), CPUs: cpus})
		}
	}
	return true
}

// addCore notes a core, or a core of an AMD module, which the kernel calls threads of one core
// although each has a core_id.
func (pr *placeReader) addCore(cpu int, cpus idset.Set) {
	id := pr.r.id(cpuPath(cpu) + "/topology/core_id")
	if pr.r.threadsAreCores && cpus.Len() > 1 {
		other := cpus.Sub(idset.Of(cpu)).First()
		if other > maxCPU || pr.r.id(cpuPath(other)+"/topology/core_id") != id {
			cpus = idset.Of(cpu)
		}
	}
	pr.cores = pr.cores.Union(cpus)
	pr.r.parts.Cores = append(pr.r.parts.Cores, topology.Part{OS: id, CPUs: cpus})
}

// id is a number the kernel gave, NoIndex without one.
func (r *reader) id(name string) int {
	n, err := r.fs.Int(name)
	if err != nil || n < 0 {
		return topology.NoIndex
	}
	return n
}

// maxCaches is how many caches of a CPU are looked at; known machines have up to five.
const maxCaches = 10

// cacheReader reads caches, each once.
type cacheReader struct {
	r     *reader
	known map[string]topology.Cache // by index and size: one machine's caches of a size are alike
	seen  [maxCaches]idset.Set      // by index: CPUs whose cache is read
	deep  int                       // indices there are
}

// read notes the caches of a CPU that no earlier CPU shares.
func (c *cacheReader) read(cpu int) {
	if c.deep > 0 && !slices.ContainsFunc(c.seen[:c.deep], func(s idset.Set) bool { return !s.Contains(cpu) }) {
		return
	}
	dir := cpuPath(cpu) + "/cache"
	for index := range c.r.fs.Numbers(dir, "index", maxCaches-1).All() {
		if c.seen[index].Contains(cpu) {
			continue
		}
		c.deep = max(c.deep, index+1)
		c.readOne(cpu, index, dir+"/index"+strconv.Itoa(index))
	}
}

func (c *cacheReader) readOne(cpu, index int, dir string) {
	cpus, err := c.r.fs.Mask(dir + "/shared_cpu_map")
	if err != nil {
		return
	}
	if !cpus.Contains(cpu) { // Itaniums have told none; it is in no larger part than the core
		cpus = c.r.coreOf(cpu)
	}
	c.seen[index] = c.seen[index].Union(cpus)
	size, _ := c.r.fs.Text(dir + "/size") // "32K"
	key := strconv.Itoa(index) + " " + size
	cache, ok := c.known[key]
	if !ok {
		cache = c.attributes(dir, size)
		c.known[key] = cache
	}
	if cache.Level > 0 {
		c.r.parts.Caches = append(c.r.parts.Caches, topology.CachePart{Cache: cache, OS: c.r.id(dir + "/id"), CPUs: cpus})
	}
}

// coreOf is the CPUs of the core that a CPU is in.
func (r *reader) coreOf(cpu int) idset.Set {
	for _, core := range r.parts.Cores {
		if core.CPUs.Contains(cpu) {
			return core.CPUs
		}
	}
	return idset.Of(cpu)
}

// attributes is what a cache is. ways_of_associativity is not used: machines say there what they
// like for fully associative caches.
func (c *cacheReader) attributes(dir, size string) topology.Cache {
	value := func(name string) int {
		n, err := c.r.fs.Int(dir + "/" + name)
		if err != nil {
			return 0
		}
		return max(n, 0)
	}
	cache := topology.Cache{Level: value("level"), Line: value("coherency_line_size")}
	digits, _, _ := strings.Cut(size, "K")
	if kib, err := strconv.ParseUint(digits, 10, 32); err == nil {
		cache.Size = kib << 10
	}
	switch kind, _ := c.r.fs.Text(dir + "/type"); kind {
	case "Data":
		cache.Kind = topology.Data
	case "Instruction":
		cache.Kind = topology.Instruction
	}
	partition := 1
	if n, err := c.r.fs.Int(dir + "/physical_line_partition"); err == nil {
		partition = n
	}
	if sets := value("number_of_sets"); cache.Line > 0 && partition > 0 && sets > 1 {
		cache.Associativity = int(cache.Size / uint64(cache.Line) / uint64(partition) / uint64(sets))
	}
	return cache
}
