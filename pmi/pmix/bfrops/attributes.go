package bfrops

// Ranges of data and events (pmix_data_range_t).
const (
	RangeResourceManager = 1
	RangeLocal           = 2
	RangeNamespace       = 3
	RangeSession         = 4
	RangeCustom          = 6
	RangeProcLocal       = 7
)

// NewInfo is an attribute without directives.
func NewInfo(key string, t Type, data any) Info {
	return Info{Key: key, Value: Value{Type: t, Data: data}}
}

// Attribute is the first attribute of that key.
func Attribute(infos []Info, key string) (Value, bool) {
	for _, i := range infos {
		if i.Key == key {
			return i.Value, true
		}
	}
	return Value{}, false
}

// IsTrue reads a BOOL attribute, which is false where it is absent and true without a value.
func IsTrue(infos []Info, key string) bool {
	v, ok := Attribute(infos, key)
	return ok && v.True()
}

// Procs reads an attribute that lists processes, or is one.
func Procs(infos []Info, key string) (procs []Proc) {
	v, _ := Attribute(infos, key)
	switch d := v.Data.(type) {
	case Proc:
		return []Proc{d}
	case Array:
		for _, e := range d.Data {
			if p, ok := e.(Proc); ok {
				procs = append(procs, p)
			}
		}
	}
	return procs
}

// Means says whether p, of a list of processes, means who.
func (p Proc) Means(who Proc) bool {
	return p.Namespace == who.Namespace && (p.Rank == who.Rank || p.Rank == RankWildcard)
}

// QualifiedKey is the key under which values travel that belong to a key and qualifiers: an array of
// infos, the first being the key and the value (PMIX_QUALIFIED_VALUE).
const QualifiedKey = "pmix.qual.val"

// Qualified is a value that belongs to a key and qualifiers.
func Qualified(value Info, qualifiers ...Info) KVal {
	infos := NewInfos(append([]Info{value}, qualifiers...)...)
	return KVal{Key: QualifiedKey, Value: Value{Type: DataArray, Data: infos}}
}
