package bfrops

import "fmt"

// Ranks that are none (pmix_common.h).
const (
	RankUndef    = 0xffffffff
	RankWildcard = 0xfffffffe
)

// Flags of an Info (pmix_common.h).
const (
	InfoRequired  = 1
	InfoQualifier = 8
)

// Value is any PMIx value with its type; Data is as the package comment says.
type Value struct {
	Type Type
	Data any
}

// Proc names a rank of a namespace.
type Proc struct {
	Namespace string
	Rank      uint32
}

// Info is an attribute of a request.
type Info struct {
	Key   string
	Flags uint32
	Value Value
}

// KVal is a key and its value.
type KVal struct {
	Key   string
	Value Value
}

// PData is a published key, its publisher and value.
type PData struct {
	Proc  Proc
	Key   string
	Value Value
}

// App is a program to spawn.
type App struct {
	Cmd       string
	Argv, Env []string
	Dir       string
	MaxProcs  int
	Infos     []Info
}

// Query asks for the values of keys.
type Query struct {
	Keys       []string
	Qualifiers []Info
}

// Buffer holds packed groups, NON_DESC or (Desc) FULLY_DESC.
type Buffer struct {
	Desc bool
	Data []byte
}

// Array is a DATA_ARRAY: values of one type.
type Array struct {
	Type Type
	Data []any
	Bare bool // it has no type, and came without a size (noArray); it is written as it came
}

// ProcInfo describes a process.
type ProcInfo struct {
	Proc      Proc
	Host, Exe string
	PID       uint32
	State     uint8
}

// Timeval is seconds and microseconds.
type Timeval struct{ Sec, Usec int64 }

// Envar is a change to an environment variable.
type Envar struct {
	Name, Value string
	Separator   byte
}

// True reads a BOOL attribute; an attribute without a value is true.
func (v Value) True() bool {
	b, ok := v.Data.(bool)
	return b || !ok && v.Type == Undef
}

// Text reads a STRING.
func (v Value) Text() string {
	s, _ := v.Data.(string)
	return s
}

// Number reads any integer; false above int64.
func (v Value) Number() (n int64, ok bool) {
	switch d := v.Data.(type) {
	case int64:
		return d, true
	case uint64:
		return int64(d), d < 1<<63
	}
	return 0, false
}

// NewInfos is an array of infos.
func NewInfos(infos ...Info) Array { return newArray(InfoType, infos) }

// NewProcs is an array of process names.
func NewProcs(procs ...Proc) Array { return newArray(ProcType, procs) }

// NewTexts is an array of strings.
func NewTexts(texts ...string) Array { return newArray(String, texts) }

func newArray[T any](t Type, elements []T) Array {
	a := Array{Type: t, Data: make([]any, len(elements))}
	for i, e := range elements {
		a.Data[i] = e
	}
	return a
}

// SyntaxError is a message that does not decode.
type SyntaxError struct {
	What string
	At   int // offset in the payload
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.What, e.At) }
