package secret

import (
	"strings"
	"testing"
)

// What masking a usual line of a log costs: a page of a log masks each.
func BenchmarkMaskText(b *testing.B) {
	line := "2026-11-28T20:24:10Z INFO w1 local process 4711 of socket 0: network eth0 is up, step 1200, loss 2.1234, lr 1e-4, tokens/s 51234"
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		if MaskText(line) != line {
			b.Fatal("it is changed")
		}
	}
}

func BenchmarkMaskTextOfOptions(b *testing.B) {
	line := "+ python train.py --local-rank 0 --net resnet -p 4 -k 3 " + strings.Repeat("--a-b c ", 10)
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		MaskText(line)
	}
}
