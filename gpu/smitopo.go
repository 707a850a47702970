package gpu

import (
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/pattern"
)

// escapes are a terminal's: nvidia-smi underlines the head of its table, for files too in some versions.
var escapes = pattern.Of("\x1b\\[[0-9;]*m")

// parseTopo reads how many NVLinks join each two GPUs, by nvidia-smi's numbers, of nvidia-smi topo -m:
//
//	        GPU0    GPU1    NIC0    CPU Affinity    NUMA Affinity   GPU NUMA ID
//	GPU0     X      NV18    PIX     0-47,96-143     0               N/A
//	GPU1    NV18     X      SYS     48-95,144-191   1               N/A
//	NIC0    PIX     SYS      X
//
// "NV18" are 18 NVLinks, straight or through switches; all else is PCI, which /sys tells better. A table that is no
// square of GPUs, or that says one thing of a pair there and another back, is nil.
func parseTopo(text []byte) [][]int {
	var table [][]int
	gpus := 0
	for line := range strings.Lines(escapes().ReplaceAllString(string(text), "")) {
		f := strings.Fields(line)
		switch {
		case len(f) == 0:
		case gpus == 0:
			gpus = columns(f)
		case len(table) < gpus:
			if numberOf(f[0]) != len(table) || len(f) < 1+gpus {
				return nil
			}
			row := make([]int, gpus)
			for i, word := range f[1 : 1+gpus] {
				row[i] = links(word)
			}
			table = append(table, row)
		}
	}
	if gpus == 0 || len(table) != gpus {
		return nil
	}
	for i := range table {
		for j := range table {
			if table[i][j] != table[j][i] || i == j && table[i][j] != 0 {
				return nil
			}
		}
	}
	return table
}

// columns is how many words the head has of GPU0, GPU1 and so on, 0 where it has others or too many.
func columns(head []string) (n int) {
	for n < len(head) && numberOf(head[n]) == n {
		n++
	}
	if n > maxGPUs || n < len(head) && numberOf(head[n]) >= 0 {
		return 0
	}
	return n
}

// numberOf is N of "GPUN", -1 of all else.
func numberOf(word string) int {
	digits, ok := strings.CutPrefix(word, "GPU")
	if !ok {
		return -1
	}
	return decimal(digits, maxGPUs)
}

// links is N of "NVN", 0 of all else.
func links(word string) int {
	digits, ok := strings.CutPrefix(word, string(NVLink))
	n, err := strconv.ParseUint(digits, 10, 16)
	if !ok || err != nil || n > maxLinks {
		return 0
	}
	return int(n)
}

// join gives GPUs the links of a table that has all of them, in their order: nvidia-smi numbers them by address, too.
func join(gpus []GPU, table [][]int) {
	if len(table) != len(gpus) {
		return
	}
	for i := range gpus {
		for j, n := range table[i] {
			if n > 0 {
				gpus[i].Links = append(gpus[i].Links, Link{To: gpus[j].At, Kind: NVLink, Count: n})
			}
		}
	}
}
