package bfrops

import (
	"math"
	"strconv"
	"strings"
)

// rule is how values of one type are written and read. put is false for a Go value that is none
// of the type.
type rule struct {
	name string
	put  func(*Writer, any) bool
	get  func(*Reader) any
}

var rules [typeCount]rule

// The table is filled here because its functions look other types up in it.
func init() {
	rules = [typeCount]rule{
		Undef:            {"UNDEF", func(_ *Writer, v any) bool { return v == nil }, func(*Reader) any { return nil }},
		Bool:             {"BOOL", putBool, func(r *Reader) any { return r.unsigned(8) != 0 }},
		Byte:             unsignedRule("BYTE", 8),
		String:           {"STRING", putString, getString},
		Size:             {"SIZE", put((*Writer).size), get((*Reader).size)},
		PID:              {"PID", put((*Writer).pid), get((*Reader).pid)},
		Int:              {"INT", put((*Writer).int), get((*Reader).int)},
		Int8:             signedRule("INT8", 8),
		Int16:            signedRule("INT16", 16),
		Int32:            signedRule("INT32", 32),
		Int64:            signedRule("INT64", 64),
		Uint:             {"UINT", put((*Writer).uint), get((*Reader).uint)},
		Uint8:            unsignedRule("UINT8", 8),
		Uint16:           unsignedRule("UINT16", 16),
		Uint32:           unsignedRule("UINT32", 32),
		Uint64:           unsignedRule("UINT64", 64),
		Float:            {"FLOAT", put((*Writer).float), get((*Reader).float)},
		Double:           {"DOUBLE", put((*Writer).float), get((*Reader).float)},
		TimeOfDay:        {"TIMEVAL", put((*Writer).timeval), get((*Reader).timeval)},
		Time:             unsignedRule("TIME", 64),
		Status:           signedRule("STATUS", 32),
		ValueType:        {"VALUE", put((*Writer).tagged), get((*Reader).tagged)},
		ProcType:         {"PROC", put((*Writer).proc), get((*Reader).proc)},
		AppType:          {"APP", put((*Writer).app), get((*Reader).app)},
		InfoType:         {"INFO", put((*Writer).info), get((*Reader).info)},
		PDataType:        {"PDATA", put((*Writer).pdata), get((*Reader).pdata)},
		BufferType:       {"BUFFER", put((*Writer).buffer), get((*Reader).buffer)},
		ByteObject:       {"BYTE_OBJECT", put((*Writer).bytes), get((*Reader).bytes)},
		KValType:         {"KVAL", put((*Writer).kval), get((*Reader).kval)},
		Persist:          unsignedRule("PERSIST", 8),
		Pointer:          {"POINTER", putPointer, getPointer},
		Scope:            unsignedRule("SCOPE", 8),
		Range:            unsignedRule("DATA_RANGE", 8),
		Command:          unsignedRule("COMMAND", 8),
		InfoDirectives:   unsignedRule("INFO_DIRECTIVES", 32),
		DataType:         unsignedRule("DATA_TYPE", 16),
		ProcState:        unsignedRule("PROC_STATE", 8),
		ProcInfoType:     {"PROC_INFO", put((*Writer).procInfo), get((*Reader).procInfo)},
		DataArray:        {"DATA_ARRAY", put((*Writer).array), get((*Reader).array)},
		ProcRank:         unsignedRule("PROC_RANK", 32),
		QueryType:        {"QUERY", put((*Writer).query), get((*Reader).query)},
		CompressedString: {"COMPRESSED_STRING", put((*Writer).bytes), get((*Reader).bytes)},
		AllocDirective:   unsignedRule("ALLOC_DIRECTIVE", 8),
		IOFChannel:       unsignedRule("IOF_CHANNEL", 16),
		EnvarType:        {"ENVAR", put((*Writer).envar), get((*Reader).envar)},
		JobState:         unsignedRule("JOB_STATE", 8),
		LinkState:        unsignedRule("LINK_STATE", 8),
		DevType:          unsignedRule("DEVTYPE", 64),
		LocType:          unsignedRule("LOCTYPE", 16),
		CompressedBytes:  {"COMPRESSED_BYTE_OBJECT", put((*Writer).bytes), get((*Reader).bytes)},
		ProcNamespace:    {"PROC_NSPACE", putString, getString},
	}
}

// put makes a rule's half of a method that writes one Go type.
func put[T any](f func(*Writer, T)) func(*Writer, any) bool {
	return func(w *Writer, v any) bool {
		x, ok := v.(T)
		if ok {
			f(w, x)
		}
		return ok
	}
}

func get[T any](f func(*Reader) T) func(*Reader) any {
	return func(r *Reader) any { return f(r) }
}

func unsignedRule(name string, width int) rule {
	return rule{name,
		put(func(w *Writer, n uint64) { w.unsigned(width, n) }),
		get(func(r *Reader) uint64 { return r.unsigned(width) })}
}

func signedRule(name string, width int) rule {
	return rule{name,
		put(func(w *Writer, v int64) { w.signed(width, v) }),
		get(func(r *Reader) int64 { return r.signed(width) })}
}

func putBool(w *Writer, v any) bool {
	b, ok := v.(bool)
	var n uint64
	if b {
		n = 1
	}
	w.unsigned(8, n)
	return ok
}

func putString(w *Writer, v any) bool {
	if v == nil {
		w.signed(32, 0)
		return true
	}
	s, ok := v.(string)
	w.str(s)
	return ok
}

func getString(r *Reader) any {
	if s, null := r.text(); !null {
		return s
	}
	return nil
}

// A pointer means nothing outside its process; one byte stands for it.
func putPointer(w *Writer, v any) bool {
	w.unsigned(8, 0)
	return v == nil
}

func getPointer(r *Reader) any {
	r.unsigned(8)
	return nil
}

func (w *Writer) pid(n uint64) {
	w.tag(Uint32)
	w.unsigned(32, n)
}

func (r *Reader) pid() uint64 {
	if t := r.tag(); t != Uint32 {
		r.fail("a process id as %s", t)
	}
	return r.unsigned(32)
}

// INT and UINT are tagged in fixed dialects, because their width is the machine's.
func (w *Writer) int(v int64) {
	if !w.d.flex {
		w.tag(Int32)
	}
	w.signed(32, v)
}

func (r *Reader) int() int64 {
	if !r.d.flex {
		if t := r.tag(); t != Int32 {
			r.fail("an int as %s", t)
		}
	}
	return r.signed(32)
}

func (w *Writer) uint(n uint64) {
	if n > math.MaxUint32 {
		w.fail("%d does not fit into 32 bits", n)
	}
	w.int(int64(int32(n)))
}

func (r *Reader) uint() uint64 {
	if r.d.flex {
		return uint64(uint32(r.signed(32)))
	}
	if t := r.tag(); t != Int32 && t != Uint32 {
		r.fail("an unsigned int as %s", t)
	}
	return r.unsigned(32)
}

// FLOAT and DOUBLE travel as text, "%f".
func (w *Writer) float(f float64) { w.str(strconv.FormatFloat(f, 'f', 6, 64)) }

func (r *Reader) float() float64 {
	s := r.str()
	f, err := strconv.ParseFloat(strings.TrimSpace(s), 64)
	if err != nil && r.err == nil {
		r.fail("%.40q is no number", s)
	}
	return f
}
