// Package layout says where each hardware thread that a host may use lies in its machine: which
// core it belongs to, which caches, NUMA node and package. It is what agents tell launchers of
// their machines, and all that mapping and binding of ranks need.
//
//	number  CPU  core  L3  NUMA  package        a number is the thread's place in the machine's
//	     0    0     0   0     0        0        order, which is hwloc's logical one; CPU is the
//	     1    8     0   0     0        0        kernel's number
//	     2    1     1   0     0        0
//	     3    9     1   0     0        0
//
// Objects are counted in that order too, and only those with a usable thread: so does hwloc in a
// container. New and Restrict build a Layout, which does not change afterwards; any number of
// goroutines may read it.
//
// A Request is what users ask for about CPUs: where ranks are mapped within their hosts, how they are numbered there, and to what they are
// bound. launcher/placement maps and binds. Its words are those of Open MPI's options, which mpiup run has too, those of Hydra's, lists of CPUs,
// and rankfiles:
//
//	--map-by   socket:PE=2   ppr:2:numa   slot:SPAN       ParseMapBy
//	--rank-by  socket:span   slot                         ParseRankBy
//	--bind-to  core:overload-allowed   cpu-list:ordered   ParseBindTo
//	--cpu-set  0-3,8   1:0-3   p12                        ParseCPUs
//	rankfile   rank 0=w0 slot=1:0-2                       ParseRankfile
//	-bind-to   core:2   user:0+2,3   rr                   ParseHydra
//
// Numbers are Open MPI's. They count the cores that a host may use, or hardware threads where the user asks for
// those. With "p" before it a number is the kernel's own for a CPU.
//
// PURE. It does not know memory without CPUs, devices, or what cannot be used.
package layout

import (
	"errors"
	"fmt"

	"github.com/mpiup/mpiup/internal/idset"
)

// Kind is a kind of object that threads belong to.
type Kind int

// The kinds, from within.
const (
	None Kind = iota // no object
	HWThread
	Core
	L1
	L2
	L3
	NUMA
	Package
	numKinds
)

var kindNames = [numKinds]string{"none", "hwthread", "core", "l1cache", "l2cache", "l3cache", "numa", "package"}

// String is the kind as users write it.
func (k Kind) String() string {
	if k < 0 || k >= numKinds {
		return "?"
	}
	return kindNames[k]
}

// Kinds are all kinds of objects.
func Kinds() []Kind { return []Kind{HWThread, Core, L1, L2, L3, NUMA, Package} }

// Thread is one usable hardware thread. For each kind of object it has a number, which only the threads of the same
// object share; a negative one says that the thread belongs to no object of that kind.
type Thread struct {
	CPU int
	In  [numKinds]int // by Kind; those of None and HWThread are not looked at
}

// Limits of a layout: Linux can be built for so many CPUs (CONFIG_NR_CPUS).
const (
	MaxThreads = 8192
	maxCPU     = MaxThreads - 1
)

// Layout is the usable part of one machine. The zero Layout has no threads; New makes none without.
type Layout struct {
	// Exclusive: nobody else runs on these CPUs, as far as can be told. They are a part of the
	// machine's, or the container's CPU time is enough for all of them.
	Exclusive bool

	cpus    []int // the kernel's numbers, by place
	of      [numKinds][]int
	objects [numKinds][]idset.Set
	all     idset.Set
}

// New takes threads in the machine's order. A thread without a core is a core of its own, and
// without packages the machine is one.
func New(threads []Thread) (*Layout, error) {
	l := &Layout{}
	switch {
	case len(threads) == 0:
		return nil, errors.New("a machine without a usable CPU")
	case len(threads) > MaxThreads:
		return nil, fmt.Errorf("a machine of %d CPUs; %d are possible", len(threads), MaxThreads)
	}
	packages := false
	for _, t := range threads {
		if t.CPU < 0 || t.CPU > maxCPU || l.all.Contains(t.CPU) {
			return nil, fmt.Errorf("CPU %d is out of range or there twice", t.CPU)
		}
		l.all.Add(t.CPU)
		l.cpus = append(l.cpus, t.CPU)
		packages = packages || t.In[Package] >= 0
	}
	for _, k := range Kinds() {
		number := make(map[int]int)
		for i, t := range threads {
			label := t.In[k]
			switch {
			case k == HWThread:
				label = i
			case k == Core && label < 0:
				label = -2 - i
			case k == Package && !packages:
				label = 0
			case label < 0:
				l.of[k] = append(l.of[k], -1)
				continue
			}
			n, known := number[label]
			if !known {
				n = len(l.objects[k])
				number[label] = n
				l.objects[k] = append(l.objects[k], idset.Set{})
			}
			l.objects[k][n].Add(t.CPU)
			l.of[k] = append(l.of[k], n)
		}
	}
	return l, nil
}

// CPUs is all of them, by the kernel's numbers.
func (l *Layout) CPUs() idset.Set { return l.all }

// Len is how many hardware threads there are.
func (l *Layout) Len() int { return len(l.cpus) }

// CPU is the kernel's number of the thread at a place.
func (l *Layout) CPU(place int) int { return l.cpus[place] }

// Of is the number of the object of a kind that holds the thread at a place; -1: there is none.
func (l *Layout) Of(k Kind, place int) int { return l.of[k][place] }

// Objects is the CPUs of each object of a kind, in order. It shares the layout's memory.
func (l *Layout) Objects(k Kind) []idset.Set {
	if k <= None || k >= numKinds {
		return nil
	}
	return l.objects[k]
}

// Inside counts the objects of a kind that have a thread among cpus.
func (l *Layout) Inside(k Kind, cpus idset.Set) int {
	var seen idset.Set
	for i, cpu := range l.cpus {
		if n := l.of[k][i]; n >= 0 && cpus.Contains(cpu) {
			seen.Add(n)
		}
	}
	return seen.Len()
}

// Restrict is the layout of those of its CPUs that are in the set; an error if there is none.
func (l *Layout) Restrict(cpus idset.Set) (*Layout, error) {
	var threads []Thread
	for i, cpu := range l.cpus {
		if !cpus.Contains(cpu) {
			continue
		}
		t := Thread{CPU: cpu}
		for _, k := range Kinds() {
			t.In[k] = l.of[k][i]
		}
		threads = append(threads, t)
	}
	if len(threads) == 0 {
		return nil, fmt.Errorf("none of CPUs %s is usable; those are %s", cpus, l.all)
	}
	r, err := New(threads)
	if err == nil {
		r.Exclusive = l.Exclusive
	}
	return r, err
}
