package bfrops

import "strconv"

// Type is the number of a PMIx data type, the same in all dialects here (pmix_common.h).
type Type uint16

const (
	Undef            Type = 0
	Bool             Type = 1
	Byte             Type = 2
	String           Type = 3
	Size             Type = 4
	PID              Type = 5
	Int              Type = 6
	Int8             Type = 7
	Int16            Type = 8
	Int32            Type = 9
	Int64            Type = 10
	Uint             Type = 11
	Uint8            Type = 12
	Uint16           Type = 13
	Uint32           Type = 14
	Uint64           Type = 15
	Float            Type = 16
	Double           Type = 17
	TimeOfDay        Type = 18 // PMIX_TIMEVAL
	Time             Type = 19
	Status           Type = 20
	ValueType        Type = 21 // PMIX_VALUE
	ProcType         Type = 22 // PMIX_PROC
	AppType          Type = 23 // PMIX_APP
	InfoType         Type = 24 // PMIX_INFO
	PDataType        Type = 25 // PMIX_PDATA
	BufferType       Type = 26 // PMIX_BUFFER
	ByteObject       Type = 27
	KValType         Type = 28 // PMIX_KVAL
	Persist          Type = 30
	Pointer          Type = 31
	Scope            Type = 32
	Range            Type = 33 // PMIX_DATA_RANGE
	Command          Type = 34
	InfoDirectives   Type = 35
	DataType         Type = 36
	ProcState        Type = 37
	ProcInfoType     Type = 38 // PMIX_PROC_INFO
	DataArray        Type = 39
	ProcRank         Type = 40
	QueryType        Type = 41 // PMIX_QUERY
	CompressedString Type = 42
	AllocDirective   Type = 43
	IOFChannel       Type = 45
	EnvarType        Type = 46 // PMIX_ENVAR
	JobState         Type = 50
	LinkState        Type = 51
	DevType          Type = 57
	LocType          Type = 58
	CompressedBytes  Type = 59
	ProcNamespace    Type = 60

	typeCount = 61
)

func (t Type) String() string {
	if int(t) < len(rules) && rules[t].name != "" {
		return rules[t].name
	}
	return "type " + strconv.Itoa(int(t))
}
