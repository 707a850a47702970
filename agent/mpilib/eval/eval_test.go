package eval

import (
	"bytes"
	"debug/elf"
	"os"
	"testing"
)

func TestTry(t *testing.T) {
	for _, lib := range []string{"/usr/lib/x86_64-linux-gnu/libmpich.so.12", "/work/alone/.cache/venv/lib/libmpi.so.12", "/work/alone/.cache/impi/lib/libmpi.so.12", "/usr/lib/x86_64-linux-gnu/libmpi.so.40"} {
		b, err := os.ReadFile(lib)
		if err != nil {
			t.Log(err)
			continue
		}
		f, _ := elf.NewFile(bytes.NewReader(b))
		syms, _ := f.DynamicSymbols()
		image := make([]byte, 200<<20)
		for _, p := range f.Progs {
			if p.Type == elf.PT_LOAD {
				copy(image[p.Vaddr:], b[p.Off:p.Off+p.Filesz])
			}
		}
		for _, s := range syms {
			if s.Name == "PMPI_Initialized" {
				flag, ok := Flag(bytes.NewReader(image), s.Value)
				t.Log(lib, flag, ok)
			}
		}
	}
}
