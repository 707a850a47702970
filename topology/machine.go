// Package topology is the model of one machine: where its processors, caches, memories and PCI
// devices lie to each other. It follows hwloc's model, because MPI libraries are told of the
// machine in hwloc's words (topology) and users know lstopo's picture.
//
//	Machine
//	 ├─ Package                   CPUs: the hardware threads below
//	 │   ├╴ NUMANode              memory children: a memory's place is its parent
//	 │   ├─ L3Cache
//	 │   │   └─ L2Cache ─ L1Cache ─ L1iCache ─ Core ─ PU, PU     one inside another by CPU sets
//	 │   └╴ Bridge                I/O children: a device's place is where its host bridge hangs
//	 │       └╴ PCIDevice
//	 │           └╴ OSDevice      "ib0", "mlx5_0"
//	 └─ Group                     what has no name of its own: clusters, nearby memories
//
// New assembles the tree from flat parts (topology/discover reads them from the kernel) and
// never reads anything itself: PURE. A Machine does not change after New; any number of goroutines
// may read it.
//
// CPUs of objects are online; which core or package an offline one is in the kernel does not tell. What this
// process may use is AllowedCPUs (its cpuset, as hwloc has it) and Affinity (its mask within that).
package topology

import (
	"github.com/mpiup/mpiup/internal/idset"
)

// Machine is one machine. The zero Machine has no Root; New makes none without.
type Machine struct {
	Root    *Object
	Present idset.Set // CPUs the kernel knows, offline ones included
	Latency *Latency  // between NUMA nodes; nil: unknown
	Kinds   []CPUKind // of a hybrid machine, the less efficient ones first; else empty

	AllowedCPUs  idset.Set // of Root.CPUs, by the cpuset
	AllowedNodes idset.Set // of Root.Nodes, by the cpuset
	Affinity     idset.Set // the mask the reading process had; empty: unknown

	byType [numTypes][]*Object
}

// Object is one thing of the machine. Which of the pointers to attributes is set follows from
// its type.
type Object struct {
	Type    Type
	OS      int    // the kernel's number for it; NoIndex: none
	Logical int    // its place among those of its type, in the tree's order
	Name    string // of an OSDevice
	Subtype string // of a Group "Cluster", of a GPU's NUMANode GPUMemory; else mostly ""

	CPUs  idset.Set // hardware threads within that are online; of memory: those near it; none of I/O
	Nodes idset.Set // NUMA nodes within, at and around it

	Parent   *Object
	Children []*Object // by their first CPU
	Memory   []*Object // NUMA nodes
	IO       []*Object // bridges and devices

	Cache  *Cache
	Memo   *Memory
	Group  *Group
	PCI    *PCIDevice // of a PCIDevice, and of a Bridge that is one
	Bridge *Bridge
	OSDev  OSDevKind
	Infos  []Info
}

// GPUMemory is the subtype of a NUMANode that is the memory of a GPU.
const GPUMemory = "GPUMemory"

// NoIndex is the OS number of what the kernel does not count.
const NoIndex = -1

// Info is one fact as name and value, in hwloc's names ("CPUModel").
type Info struct{ Name, Value string }

// Cache is what a cache object is.
type Cache struct {
	Size          uint64 // bytes; 0: unknown
	Level         int    // 1 to 5
	Line          int    // bytes; 0: unknown
	Associativity int    // ways; 0: unknown
	Kind          CacheKind
}

// CacheKind is what a cache holds.
type CacheKind int

// The kinds, with hwloc's numbers.
const (
	Unified CacheKind = iota
	Data
	Instruction
)

// Memory is what a NUMA node has.
type Memory struct {
	Size  uint64 // bytes; 0: unknown
	Pages []Pages
}

// Pages is how much of a memory is in pages of one size.
type Pages struct{ Size, Count uint64 }

// Group says why CPUs were grouped, with hwloc's numbers.
type Group struct{ Kind, Subkind int }

// The kinds of groups we make.
const (
	GroupCluster  = 222  // /sys's cluster_cpus
	GroupDistance = 900  // memories that are nearest to each other; Subkind counts the rounds
	GroupIO       = 1000 // CPUs near a host bridge
	GroupMemory   = 1001 // CPUs near a memory
)

// Bridge is where a bus hangs: buses Secondary to Subordinate of a domain are below it.
type Bridge struct {
	Host                   bool // from the processors to PCI; else from PCI to PCI
	Domain                 uint32
	Secondary, Subordinate uint8
	Depth                  int // bridges above it
}

// OSDevKind is what an OS device serves, with hwloc 2's numbers.
type OSDevKind int

// The kinds we know.
const (
	OSDevNetwork     OSDevKind = 2
	OSDevOpenFabrics OSDevKind = 3
)

// CPUKind is the CPUs of one kind of core.
type CPUKind struct {
	CPUs  idset.Set
	Name  string // "IntelAtom", "IntelCore", "ARM part 0xd87, capacity 718"
	Infos []Info // what hwloc says of it in place of the name; nil: the name is its CoreType
	Order int    // less is less power-hungry
}

// Latency is the distances between NUMA nodes as the firmware states them (10 is local).
type Latency struct {
	Nodes  []int      `json:"numa_nodes"` // OS numbers, ascending
	Values [][]uint64 `json:"values"`     // [from][to]
}

// All is the objects of a type in the tree's order. It shares the machine's slice.
func (m *Machine) All(t Type) []*Object { return m.byType[t] }

// Device is the PCI device or bridge at an address, nil without one.
func (m *Machine) Device(at PCIAddr) *Object {
	for _, t := range []Type{TypePCIDevice, TypeBridge} {
		for _, o := range m.byType[t] {
			if o.PCI != nil && o.PCI.Addr == at {
				return o
			}
		}
	}
	return nil
}

// Place is o itself, or what an I/O object or a memory hangs at.
func (o *Object) Place() *Object {
	for o.Type.IO() || o.Type == TypeNUMANode {
		o = o.Parent
	}
	return o
}

// walk visits o and all below it: memory first, then what is inside, then I/O. That is the order
// of hwloc's XML.
func (o *Object) walk(visit func(*Object)) {
	visit(o)
	for _, list := range [][]*Object{o.Memory, o.Children, o.IO} {
		for _, c := range list {
			c.walk(visit)
		}
	}
}
