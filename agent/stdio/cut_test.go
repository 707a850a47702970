package stdio

import (
	"bytes"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/cost"
	"testing"
)

// feed cuts data that arrives in pieces of sizes made from splits (up to 64 KiB), over and over.
func feed(h *holder, data, splits []byte) []Chunk {
	var cs []Chunk
	for i := 0; len(data) > 0; i++ {
		n := 1
		if len(splits) > 0 {
			b := int(splits[i%len(splits)])
			n += b * b
		}
		n = copy(h.space(n), data[:min(n, len(data))])
		data = data[n:]
		if c, ok := h.add(n); ok {
			cs = append(cs, c)
		}
		h.idle()
	}
	if c, ok := h.rest(); ok {
		cs = append(cs, c)
	}
	h.idle()
	return cs
}

func TestCut(t *testing.T) {
	tests := []struct {
		name, in string
		splits   []byte
		want     []string // a trailing | marks a partial one
	}{
		{"whole lines in one read", "a\nb\n", []byte{3}, []string{"a\nb\n"}},
		{"tail waits for its rest", "a\nbc\n", []byte{1, 0}, []string{"a\n", "bc\n"}},
		{"tail at the end", "a\nb", []byte{3}, []string{"a\n", "b|"}},
		{"carriage return ends a line", "10%\r20%", []byte{3}, []string{"10%\r", "20%|"}},
		{"return and newline apart", "a\r\nb\n", []byte{1, 0, 1}, []string{"a\r", "\n", "b\n"}},
		{"long line", "abcdefghijkl\n", []byte{2, 1, 1}, []string{"abcdefghi|", "jkl\n"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := &holder{line: 8}
			var all []byte
			cs := feed(h, []byte(tt.in), tt.splits)
			for i, c := range cs {
				all = append(all, c.Data...)
				got := string(c.Data)
				if c.Partial {
					got += "|"
				}
				if i >= len(tt.want) || got != tt.want[i] {
					t.Errorf("chunk %d is %q, want %q", i, got, tt.want)
				}
			}
			if string(all) != tt.in {
				t.Errorf("got %q, want %q", all, tt.in)
			}
		})
	}
}

// Any bytes, read in any pieces: nothing is lost, doubled, reordered or changed, and what is
// not marked partial ends at a line end.
func FuzzCut(f *testing.F) {
	f.Add([]byte("a\nbb\r\nccc\n\n\rdd"), []byte{0, 3, 1}, uint16(8))
	f.Add(bytes.Repeat([]byte("x"), 300), []byte{255}, uint16(64))
	f.Add(bytes.Repeat([]byte("0123456789\n"), 7000), []byte{255, 0}, uint16(60000))
	f.Fuzz(func(t *testing.T, data, splits []byte, line uint16) {
		defer cost.Watch(t, cost.Parser, len(data)+len(splits))()
		h := &holder{line: 1 + int(line)}
		var all []byte
		for _, c := range feed(h, data, splits) {
			if len(c.Data) == 0 {
				t.Fatal("empty chunk")
			}
			last := c.Data[len(c.Data)-1]
			if ended := last == '\n' || last == '\r'; ended == c.Partial {
				t.Fatalf("chunk %q: partial=%v", c.Data, c.Partial)
			}
			if cap(c.Data) > 2*len(c.Data)+64 {
				t.Fatalf("%d bytes pin %d", len(c.Data), cap(c.Data))
			}
			all = append(all, c.Data...)
			c.Release()
		}
		if !bytes.Equal(all, data) {
			t.Fatalf("got %q, want %q", all, data)
		}
		if h.buf != nil {
			t.Fatal("an idle stream holds a buffer")
		}
	})
}

func TestWindow(t *testing.T) {
	w := newWindow(8 << 10)
	if n := w.take(job.Stdout, 1<<20); n != 7<<10 {
		t.Errorf("stdout got %d, want all but an eighth", n)
	}
	w.sent(7 << 10)
	if n := w.take(job.Stdout, 1); n != 0 {
		t.Errorf("stdout got %d of stderr's reserve", n)
	}
	if n := w.take(job.Stderr, 1<<20); n != 1<<10 {
		t.Errorf("stderr got %d, want its reserve", n)
	}
	w.put(1 << 10)
	w.grant(1 << 30) // a launcher that grants what is not in flight
	if w.free != 8<<10 {
		t.Errorf("%d free after everything came back, want the window", w.free)
	}
}

func TestWindowCountsChunks(t *testing.T) {
	w := newWindow(64 << 10)
	sent := 0
	for w.take(job.Stderr, 1) == 1 {
		w.sent(1)
		sent++
	}
	if sent != w.limit {
		t.Errorf("%d chunks of a byte in flight, want at most %d", sent, w.limit)
	}
	w.grant(10)
	for range 10 {
		if w.take(job.Stderr, 1) != 1 {
			t.Fatal("granted chunks are not free again")
		}
		w.sent(1)
	}
	if w.take(job.Stderr, 1) != 0 {
		t.Error("more than granted")
	}
}
