package look

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/cost"
)

func TestDecode(t *testing.T) {
	for _, c := range []struct{ name, in, err string }{
		{"nothing", "", "ends early"},
		{"a class", "\x80\x02cos\nsystem\n.", "instruction 0x63"},
		{"a call", "\x80\x02NR.", "instruction 0x52"},
		{"an object that is built", "\x80\x02}}b.", "instruction 0x62"},
		{"text longer than the rest", "\x80\x02X\xff\xff\xff\xffabc.", "ends early"},
		{"a length of 64 bits", "\x8d\xff\xff\xff\xff\xff\xff\xff\xffabc.", "ends early"},
		{"a number of many bytes", "\x8a\xffabc.", "255 bytes"},
		{"no mark", "N]e.", "without the mark"},
		{"a mark for a value", "](a.", "takes a mark"},
		{"a mark that is left", "(.", "leaves a mark"},
		{"two values", "NN.", "leaves 2 values"},
		{"a key alone", "}(Nu.", "key without a value"},
		{"a list as a key", "}(]Nu.", "no plain value"},
		{"a note that nobody made", "h\x05.", "note 5"},
		{"filling a number", "K\x01Na.", "no container"},
		{"more values than anybody has", strings.Repeat("N", Limit+2), "more than"},
	} {
		if v, err := unpickle([]byte(c.in)); err == nil || !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v; want an error with %q", c.name, v, err, c.err)
		}
	}
	for _, c := range []struct {
		in   string
		want any
	}{
		{"N.", nil}, {"\x88.", true}, {"\x89.", false}, {"K\xff.", int64(255)}, {"M\x00\x01.", int64(256)}, {"J\xff\xff\xff\xff.", int64(-1)},
		{"\x8a\x02\x00\x80.", int64(-32768)}, {"\x8a\x00.", int64(0)}, {"G?\xf8\x00\x00\x00\x00\x00\x00.", 1.5}, {"X\x02\x00\x00\x00ab.", "ab"}, {"\x8c\x01a.", "a"},
		{"K\x01K\x02\x86.", &pickledList{Items: []any{int64(1), int64(2)}}}, {"(K\x01t.", &pickledList{Items: []any{int64(1)}}},
		{"}q\x00\x8c\x01aq\x01h\x01s.", &pickledDict{Of: map[any]any{"a": "a"}}},
	} {
		if v, err := unpickle([]byte(c.in)); err != nil || !reflect.DeepEqual(v, c.want) {
			t.Errorf("%q is %v, %v; want %v", c.in, v, err, c.want)
		}
	}
}

func FuzzDecode(f *testing.F) {
	files, err := filepath.Glob("testdata/flight/*rank_0")
	if err != nil || len(files) == 0 {
		f.Fatal(err, files)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("\x80\x04\x95\x03\x00\x00\x00\x00\x00\x00\x00]\x94."))
	f.Fuzz(func(t *testing.T, in []byte) {
		defer cost.Watch(t, cost.Parser, len(in))()
		if v, err := unpickle(in); err != nil && v != nil {
			t.Errorf("both %v and %v", v, err)
		}
	})
}
