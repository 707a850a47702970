package topology

// Type is what an object is.
type Type uint8

// The types, from the outermost inwards: where two objects hold the same CPUs, the one of the
// earlier type is around the other (hwloc's order).
const (
	TypeMachine Type = iota
	TypePackage
	TypeDie
	TypeL5Cache
	TypeL4Cache
	TypeL3Cache
	TypeL3iCache
	TypeL2Cache
	TypeL2iCache
	TypeL1Cache
	TypeL1iCache
	TypeCore
	TypePU    // hardware thread
	TypeGroup // one with the CPUs of another object is not kept
	TypeNUMANode
	TypeBridge
	TypePCIDevice
	TypeOSDevice
	numTypes
)

var typeNames = [numTypes]string{
	"Machine", "Package", "Die", "L5Cache", "L4Cache", "L3Cache", "L3iCache", "L2Cache", "L2iCache",
	"L1Cache", "L1iCache", "Core", "PU", "Group", "NUMANode", "Bridge", "PCIDev", "OSDev",
}

// String is hwloc's name of the type.
func (t Type) String() string { return typeNames[t] }

// IO reports whether objects of the type are bridges or devices.
func (t Type) IO() bool { return t == TypeBridge || t == TypePCIDevice || t == TypeOSDevice }

// cacheType is the type of a cache of a level (1 to 5) and kind; ok is false where hwloc has
// none.
func cacheType(level int, kind CacheKind) (t Type, ok bool) {
	unified := [...]Type{1: TypeL1Cache, TypeL2Cache, TypeL3Cache, TypeL4Cache, TypeL5Cache}
	instruction := [...]Type{1: TypeL1iCache, TypeL2iCache, TypeL3iCache}
	switch {
	case level < 1 || kind < Unified || kind > Instruction:
		return 0, false
	case kind == Instruction && level < len(instruction):
		return instruction[level], true
	case kind != Instruction && level < len(unified):
		return unified[level], true
	}
	return 0, false
}
