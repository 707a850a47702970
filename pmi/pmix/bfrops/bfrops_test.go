package bfrops

import (
	"encoding/hex"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/cost"
)

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "\n", "", "\t", "").Replace(s))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func mustFind(t testing.TB, name string) *Dialect {
	t.Helper()
	d, err := Find(name)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestVarints(t *testing.T) {
	for _, tt := range []struct {
		n    uint64
		want string
	}{
		{0, "00"}, {127, "7f"}, {128, "8001"}, {RankWildcard, "feffffff0f"},
		{zigzag(-46), "5b"}, {zigzag(math.MinInt32), "ffffffff0f"}, {zigzag(1), "02"},
		{1<<56 - 1, "ffffffffffffff7f"}, {1 << 56, "808080808080808001"}, {math.MaxUint64, "ffffffffffffffffff"},
	} {
		b := appendUvarint(nil, tt.n)
		if got := hex.EncodeToString(b); got != tt.want {
			t.Errorf("%d is %s, want %s", tt.n, got, tt.want)
		}
		if n, size := uvarint(b); n != tt.n || size != len(b) {
			t.Errorf("%s reads as %d of %d bytes", tt.want, n, size)
		}
		if _, size := uvarint(b[:len(b)-1]); size != 0 {
			t.Errorf("%s cut short is read", tt.want)
		}
	}
}

// get108 is the request of a rank for another one's modex, as libpmix 4.2.2 sent it in v41 and v3,
// in a job of that name.
func get108(w *Writer) {
	w.Group(Command, uint64(4))
	w.Group(String, "muster-job1")
	w.Group(ProcRank, uint64(1))
	w.Infos(nil)
	w.Group(String, "btl.tcp.4.1")
}

func TestGolden(t *testing.T) {
	name, key := hex.EncodeToString([]byte("muster-job1\x00")), hex.EncodeToString([]byte("btl.tcp.4.1\x00"))
	for _, tt := range []struct {
		dialect string
		desc    bool
		write   func(*Writer)
		want    string
	}{
		{"v41", false, get108, "0204 0218" + name + "0201 0200 0218" + key},
		{"v4", true, get108, "090222 04 090203 18" + name + "090228 01 090204 00 090203 18" + key},
		{"v3", false, get108, "00000001 04 00000001 0000000c" + name + "00000001 00000001 00000001 000f 0000000000000000 00000001 0000000c" + key},
		{"v3", true, get108, `0009 00000001 0022 04  0009 00000001 0003 0000000c` + name + `0009 00000001 0028 00000001
			0009 00000001 0004 000f 0000000000000000  0009 00000001 0003 0000000c` + key},
		{"v41", false, func(w *Writer) { w.Status(-46) }, "02 5b"},
		{"v21", false, func(w *Writer) { w.Status(-46) }, "00000001 ffffffd2"},
		{"v41", false, func(w *Writer) { w.KVal("a", Uint32, uint64(300)) }, "02 04 6100 0e ac02"},
		{"v3", false, func(w *Writer) { w.KVal("a", Uint16, uint64(300)) }, "00000001 00000002 6100 000d 012c"},
		{"v41", false, func(w *Writer) { w.Group(String, nil) }, "02 00"},
		{"v41", false, func(w *Writer) { w.Infos([]Info{{"pmix.collect", 0, Value{Bool, true}}}) },
			"02 01 02 1a" + hex.EncodeToString([]byte("pmix.collect\x00")) + "00 01 01"},
		{"v41", false, func(w *Writer) { w.Group(BufferType, Buffer{false, []byte{2, 0}}) }, "02 01 02 0200"},
		{"v3", false, func(w *Writer) { w.Group(PID, uint64(7)) }, "00000001 000e 00000007"},
		{"v3", false, func(w *Writer) { w.Group(Int, int64(-1)) }, "00000001 0009 ffffffff"},
		{"v41", false, func(w *Writer) { w.Group(Uint, uint64(math.MaxUint32)) }, "02 01"},
	} {
		w := NewWriter(mustFind(t, tt.dialect), tt.desc, nil)
		tt.write(w)
		got, err := w.Bytes()
		if want := unhex(t, tt.want); err != nil || string(got) != string(want) {
			t.Errorf("%s desc=%v: got %x, %v\nwant %x", tt.dialect, tt.desc, got, err, want)
		}
	}
}

// samples are values of every type.
var samples = []Value{
	{Undef, nil}, {Bool, true}, {Byte, uint64(255)}, {String, "text"}, {String, ""}, {String, nil},
	{Size, uint64(1) << 60}, {PID, uint64(4711)}, {Int, int64(math.MinInt32)}, {Int8, int64(-128)},
	{Int16, int64(-32768)}, {Int32, int64(-5)}, {Int64, int64(math.MinInt64)}, {Uint, uint64(math.MaxUint32)},
	{Uint8, uint64(7)}, {Uint16, uint64(65535)}, {Uint32, uint64(RankWildcard)}, {Uint64, uint64(math.MaxUint64)},
	{Float, 1.5}, {Double, -2.25}, {TimeOfDay, Timeval{-1, 999999}}, {Time, uint64(1 << 40)}, {Status, int64(-200)},
	{ValueType, Value{Uint32, uint64(3)}}, {ProcType, Proc{"job", 3}},
	{AppType, App{"a.out", []string{"a.out", "-x"}, []string{"A=b"}, "/tmp", 2, []Info{{"k", 0, Value{Bool, true}}}}},
	{InfoType, Info{"key", InfoQualifier, Value{String, "v"}}}, {PDataType, PData{Proc{"job", 0}, "key", Value{Int32, int64(1)}}},
	{BufferType, Buffer{true, []byte{1, 2}}}, {ByteObject, []byte{0, 255}}, {KValType, KVal{"key", Value{Double, 0.5}}},
	{Persist, uint64(1)}, {Pointer, nil}, {Scope, uint64(3)}, {Range, uint64(5)}, {Command, uint64(4)},
	{InfoDirectives, uint64(9)}, {DataType, uint64(39)}, {ProcState, uint64(3)},
	{ProcInfoType, ProcInfo{Proc{"job", 1}, "host", "exe", 77, 2}},
	{DataArray, Array{Type: Uint16, Data: []any{uint64(1), uint64(500)}}}, {DataArray, NewInfos(Info{"a", 0, Value{Undef, nil}})},
	{DataArray, Array{Data: []any{}}}, {ProcRank, uint64(RankUndef)}, {QueryType, Query{[]string{"a", "b"}, []Info{}}},
	{CompressedString, []byte("zlib")}, {AllocDirective, uint64(1)}, {IOFChannel, uint64(4)}, {EnvarType, Envar{"A", "b", ':'}},
	{JobState, uint64(3)}, {LinkState, uint64(1)}, {DevType, uint64(1) << 40}, {LocType, uint64(8)},
	{CompressedBytes, []byte{1}}, {ProcNamespace, "job"},
}

func TestRoundTrip(t *testing.T) {
	seen := map[Type]bool{}
	for _, d := range dialects {
		for _, desc := range []bool{false, true} {
			for _, v := range samples {
				seen[v.Type] = true
				w := NewWriter(d, desc, nil)
				w.Group(v.Type, v.Data)
				w.KVal("key", v.Type, v.Data)
				b, err := w.Bytes()
				if !d.Knows(v.Type) {
					if err == nil {
						t.Errorf("%s: %s was written", d.Name, v.Type)
					}
					continue
				}
				if err != nil {
					t.Errorf("%s: %s: %v", d.Name, v.Type, err)
					continue
				}
				r := NewReader(d, desc, b)
				one, kv := r.One(v.Type), One[KVal](r, KValType)
				if r.Err() != nil || r.More() || !reflect.DeepEqual(one, v.Data) || !reflect.DeepEqual(kv.Value, v) {
					t.Errorf("%s desc=%v: %s %#v came back as %#v and %#v, %v", d.Name, desc, v.Type, v.Data, one, kv, r.Err())
				}
				for n := range b {
					r := NewReader(d, desc, b[:n])
					r.One(v.Type)
					last := One[KVal](r, KValType)
					if a, _ := last.Value.Data.(Array); r.Err() == nil && !a.Bare { // which has no size to cut off
						t.Errorf("%s: %s cut at %d of %d bytes is read", d.Name, v.Type, n, len(b))
					}
				}
			}
		}
	}
	for i := range rules {
		if rules[i].name != "" && !seen[Type(i)] {
			t.Errorf("no sample of %s", Type(i))
		}
	}
}

func TestWrongValuesAreNotWritten(t *testing.T) {
	for _, v := range []Value{
		{Uint16, uint64(65536)}, {Uint8, uint64(256)}, {Int16, int64(40000)}, {Uint32, int64(1)}, {String, 5}, {Uint, uint64(1) << 32},
		{Type(47), nil}, {Type(60000), nil}, {DataArray, Array{Type: Bool, Data: []any{"no"}}},
	} {
		w := NewWriter(Canonical(), false, nil)
		w.Group(v.Type, v.Data)
		if _, err := w.Bytes(); err == nil {
			t.Errorf("%s %#v was written", v.Type, v.Data)
		}
	}
}

func TestBounds(t *testing.T) {
	deep := Value{Bool, true}
	for range maxDepth + 1 {
		deep = Value{ValueType, deep}
	}
	for _, tt := range []struct {
		name, want string
		bytes      func() []byte
		read       func(*Reader)
	}{
		{"deep", "nested", func() []byte {
			w := NewWriter(Canonical(), false, nil)
			w.Group(ValueType, deep)
			b, _ := w.Bytes()
			return b
		}, func(r *Reader) { r.One(ValueType) }},
		{"count", "announced", func() []byte { return appendUvarint([]byte{2}, 1<<40) }, func(r *Reader) { Counted[Proc](r, ProcType) }},
		{"many", "announced", func() []byte {
			return append(appendUvarint(nil, zigzag(maxValues+1)), make([]byte, maxValues+1)...)
		}, func(r *Reader) { r.One(Bool) }},
		{"nothing", "no type", func() []byte {
			return unhex(t, "00000001 0000 000f 0000000000000004 01010101")
		}, func(r *Reader) { r.d = dialects[2]; r.One(DataArray) }},
		{"negative", "strings", func() []byte { return []byte{2, 1, 0} }, func(r *Reader) { r.One(QueryType) }},
		{"NUL inside", "NUL", func() []byte { return []byte{2, 6, 'a', 0, 0} }, func(r *Reader) { r.One(String) }},
		{"wrong type", "", func() []byte { return []byte{2, 21, 47} }, func(r *Reader) { r.One(ValueType) }},
	} {
		r := NewReader(Canonical(), false, tt.bytes())
		tt.read(r)
		if r.Err() == nil || !strings.Contains(r.Err().Error(), tt.want) {
			t.Errorf("%s: %v", tt.name, r.Err())
		}
	}
}

// libpmix 6.1 and later write an array that has no type without a size, before them with one. What follows is
// read either way, and both go on as they came.
func TestArrayOfNoType(t *testing.T) {
	for _, tt := range []struct {
		name, dialect string
		bare          bool
		want          string // two pairs
	}{
		{"libpmix 7", "v41", true, "02 04 6100 27 00  02 04 6200 01 01"},
		{"libpmix 4.2", "v41", false, "02 04 6100 27 00 00  02 04 6200 01 01"},
		{"libpmix 3.1", "v3", false, "00000001 00000002 6100 0027 0000 000f 0000000000000000  00000001 00000002 6200 0001 01"},
		{"to a client of an older dialect", "v3", true, "00000001 00000002 6100 0027 0000 000f 0000000000000000  00000001 00000002 6200 0001 01"},
	} {
		d := mustFind(t, tt.dialect)
		w := NewWriter(d, false, nil)
		w.KVal("a", DataArray, Array{Bare: tt.bare})
		w.KVal("b", Bool, true)
		got, err := w.Bytes()
		if want := unhex(t, tt.want); err != nil || string(got) != string(want) {
			t.Errorf("%s: got %x, %v\nwant %x", tt.name, got, err, want)
			continue
		}
		r := NewReader(d, false, got)
		a, b := One[KVal](r, KValType), One[KVal](r, KValType)
		array, _ := a.Value.Data.(Array)
		if r.Err() != nil || r.More() || array.Type != Undef || len(array.Data) != 0 || array.Bare != (tt.bare && d.flex) || b.Value.Data != true {
			t.Errorf("%s: read as %#v and %#v, %v", tt.name, a, b, r.Err())
		}
	}
	r := NewReader(Canonical(), false, unhex(t, "02 00")) // at the end of a message
	if a, _ := r.One(DataArray).(Array); r.Err() != nil || !a.Bare {
		t.Errorf("at the end: %#v, %v", a, r.Err())
	}
}

// Whatever a rank sends, reading ends, and what was read is written and read alike.
func FuzzReader(f *testing.F) {
	for i, d := range dialects {
		for _, v := range samples {
			w := NewWriter(d, false, nil)
			w.KVal("key", v.Type, v.Data)
			if b, err := w.Bytes(); err == nil {
				f.Add(uint8(i), false, b)
			}
		}
	}
	f.Fuzz(func(t *testing.T, which uint8, desc bool, data []byte) {
		defer cost.Watch(t, cost.Parser, len(data))()
		d := dialects[int(which)%len(dialects)]
		r := NewReader(d, desc, data)
		for r.More() {
			kv := One[KVal](r, KValType)
			if r.Err() != nil {
				return
			}
			w := NewWriter(d, desc, nil)
			w.KVal(kv.Key, kv.Value.Type, kv.Value.Data)
			b, err := w.Bytes()
			if err != nil {
				t.Fatalf("%#v was read and is not written: %v", kv, err)
			}
			again := NewReader(d, desc, b)
			w = NewWriter(d, desc, nil)
			kv = One[KVal](again, KValType)
			w.KVal(kv.Key, kv.Value.Type, kv.Value.Data)
			c, _ := w.Bytes()
			if again.Err() != nil || string(b) != string(c) {
				t.Fatalf("%x became %x, %v", b, c, again.Err())
			}
		}
	})
}
