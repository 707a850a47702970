package bfrops

import "fmt"

// Writer packs groups for one client. Its first error sticks; Bytes returns it.
type Writer struct {
	d    *Dialect
	desc bool
	b    []byte
	err  error
}

// NewWriter appends to b, in d and with the tags of FULLY_DESC if desc.
func NewWriter(d *Dialect, desc bool, b []byte) *Writer { return &Writer{d: d, desc: desc, b: b} }

// Like returns an empty writer of the same dialect and kind.
func (w *Writer) Like() *Writer { return &Writer{d: w.d, desc: w.desc} }

// Reset begins anew in the same memory: what Bytes returned is no longer valid.
func (w *Writer) Reset() { w.b, w.err = w.b[:0], nil }

// Dialect is what w writes.
func (w *Writer) Dialect() *Dialect { return w.d }

// Bytes is what was appended to. The error is of a value that does not fit its type, or of a
// type that the dialect lacks: a mistake of the caller, or a value for clients of another dialect.
func (w *Writer) Bytes() ([]byte, error) { return w.b, w.err }

// Group packs values of type t.
func (w *Writer) Group(t Type, values ...any) {
	w.begin(t, len(values))
	for _, v := range values {
		w.value(t, v)
	}
}

// Status packs one STATUS.
func (w *Writer) Status(code int) { w.Group(Status, int64(code)) }

// KVal packs one KVAL.
func (w *Writer) KVal(key string, t Type, data any) {
	w.begin(KValType, 1)
	w.str(key)
	w.tagged(Value{t, data})
}

// Infos packs their number and, if there are any, the infos.
func (w *Writer) Infos(infos []Info) { PutCounted(w, InfoType, infos) }

// PutCounted packs the number of values as SIZE and, if there are any, the values of type t.
func PutCounted[T any](w *Writer, t Type, values []T) {
	w.Group(Size, uint64(len(values)))
	if len(values) == 0 {
		return
	}
	w.begin(t, len(values))
	for _, v := range values {
		w.value(t, v)
	}
}

// Raw appends groups that are packed already.
func (w *Writer) Raw(groups []byte) { w.b = append(w.b, groups...) }

func (w *Writer) begin(t Type, count int) {
	if w.desc {
		w.tag(Int32)
	}
	w.signed(32, int64(count))
	if w.desc {
		w.tag(t)
	}
}

func (w *Writer) tag(t Type) { w.unsigned(16, uint64(t)) }

func (w *Writer) str(s string) {
	w.signed(32, int64(len(s))+1)
	w.b = append(append(w.b, s...), 0)
}

func (w *Writer) size(n uint64) {
	if !w.d.flex {
		w.tag(Uint64)
	}
	w.unsigned(64, n)
}

func (w *Writer) bytes(b []byte) {
	w.size(uint64(len(b)))
	w.b = append(w.b, b...)
}

// tagged appends a type and a value of it.
func (w *Writer) tagged(v Value) {
	w.tag(v.Type)
	w.value(v.Type, v.Data)
}

func (w *Writer) value(t Type, v any) {
	if !w.d.Knows(t) {
		w.fail("%s is not part of dialect %s", t, w.d.Name)
		return
	}
	if w.err == nil && !rules[t].put(w, v) {
		w.fail("%T is no %s", v, t)
	}
}

// Fail makes err the writer's error if it has none.
func (w *Writer) Fail(err error) {
	if w.err == nil {
		w.err = err
	}
}

func (w *Writer) fail(format string, args ...any) {
	if w.err == nil {
		w.err = fmt.Errorf(format, args...)
	}
}
