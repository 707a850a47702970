package mpilib

import (
	"bytes"
	"debug/elf"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/cost"
)

// real is a program of this machine and all that it loads, as ldd lists them.
func real(t testing.TB) (files []string) {
	t.Helper()
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	files = []string{sh}
	out, err := exec.Command("ldd", sh).Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range strings.Fields(string(out)) {
		if strings.HasPrefix(word, "/") {
			files = append(files, word)
		}
	}
	return files
}

// What is read of real files is what debug/elf reads of them.
func TestRealFiles(t *testing.T) {
	for _, file := range real(t) {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		want, err := elf.NewFile(f)
		if err != nil {
			t.Fatal(err)
		}
		o, err := Read(f)
		if err != nil {
			t.Fatal(file, err)
		}
		needed, _ := want.ImportedLibraries()
		name, _ := want.DynString(elf.DT_SONAME)
		if !slices.Equal(o.Needed, needed) || o.Machine != want.Machine || o.Name != strings.Join(name, "") {
			t.Errorf("%s: needs %v, is %q; want %v, %q", file, o.Needed, o.Name, needed, name)
		}
		symbols, _ := want.DynamicSymbols()
		defined := 0
		for _, s := range symbols {
			at, ok := o.Defines(s.Name)
			if s.Section == elf.SHN_UNDEF {
				continue
			}
			if defined++; !ok || at != s.Value && !slices.ContainsFunc(symbols, func(other elf.Symbol) bool { return other.Name == s.Name && other.Value == at }) {
				t.Errorf("%s: %s is at %#x, %v; want %#x", file, s.Name, at, ok, s.Value)
			}
		}
		if _, ok := o.Defines("mpiup_no_such_symbol"); ok {
			t.Errorf("%s defines what nobody does", file)
		}
		rodata := want.Section(".rodata")
		data, err := rodata.Data()
		if err != nil {
			t.Fatal(err)
		}
		var got []byte
		o.Constants(func(piece []byte) bool {
			got = append(got, piece[min(len(got), Overlap):]...)
			return true
		})
		if !bytes.Equal(got, data[:min(len(data), maxStrings)]) {
			t.Errorf("%s: %d bytes of constants, want %d", file, len(got), len(data))
		}
		t.Logf("%s: %d libraries, %d symbols, %d bytes", file, len(needed), defined, len(got))
	}
}

// countedReader counts what is asked for.
type countedReader struct {
	*bytes.Reader
	asked int
}

func (c *countedReader) ReadAt(b []byte, offset int64) (int, error) {
	c.asked += len(b)
	return c.Reader.ReadAt(b, offset)
}

// FuzzRead takes any bytes for a file: what is read is bounded, whatever its numbers say.
func FuzzRead(f *testing.F) {
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	text, err := os.ReadFile(real(f)[0])
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text[:min(len(text), 32<<10)])
	f.Fuzz(func(t *testing.T, b []byte) {
		defer cost.Watch(t, cost.Bound{Fixed: 64 << 20}, 0)()
		r := &countedReader{Reader: bytes.NewReader(b)}
		o, err := Read(r)
		if err != nil {
			return
		}
		for _, name := range []string{"MPI_Init", ""} {
			if v := o.Constant(name); len(v) > MaxName {
				t.Errorf("%d bytes of %q", len(v), name)
			}
		}
		pieces := 0
		o.Constants(func(piece []byte) bool { pieces++; return true })
		if most := 200 << 20; r.asked > most || pieces > maxSegments*(maxStrings/(pieceSize-Overlap)+2) {
			t.Errorf("%d bytes were asked for, in %d pieces", r.asked, pieces)
		}
	})
}
