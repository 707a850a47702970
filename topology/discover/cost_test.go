package discover_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/topology/discover"
)

// What an archive may cost, whatever it holds: bytes allocated at most this many for each byte read, beside a machine of the
// largest size. Each attack was hundreds of MB, minutes or both before names were bounded before they are written out.
const (
	perByte = 64
	largest = 256 << 20
)

func TestHostileArchivesAreCheap(t *testing.T) {
	repeated := func(n int, format string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	for _, tt := range []struct {
		name, text string
		refused    bool
	}{
		{"a long name for each number", "-- " + strings.Repeat("x", 1<<20) + "{0-400} --\n", true},
		{"a name as long as may be for each number", "-- " + strings.Repeat("x", 4000) + "{0-65535} --\n", true},
		{"deep directories for each number", "-- a{0-65535}" + strings.Repeat("/b", 1400) + " --\n", true},
		{"deep directories for each file", repeated(1000, "-- a%d"+strings.Repeat("/b", 1400)+" --\n"), true},
		{"one text for each number", "-- a{0-65535} --\n" + strings.Repeat("x", 64<<10) + "\n", true},
		{"large numbers", repeated(20000, "-- {1048575}a%d --\n"), true},
		{"the largest numbers that may be", repeated(20000, "-- {65535}a%d --\n"), false},
		{"the same numbers again", "-- {" + strings.Repeat("0-65535,", 100000) + "0} --\n", true},
		{"bytes far apart", "-- a (hex) --\n" + strings.Repeat("0 0 ", 1<<20) + "\n", false},
		{"long links", repeated(2000, "-- a%d -> "+strings.Repeat("b/", 1000)+"a --\n"), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			files, err := discover.Parse([]byte(tt.text))
			if err == nil {
				files.FS()
			}
			runtime.ReadMemStats(&after)
			if (err != nil) != tt.refused {
				t.Errorf("%.200v, refused %v", err, tt.refused)
			}
			spent := after.TotalAlloc - before.TotalAlloc
			t.Logf("%d bytes read, %d MB allocated", len(tt.text), spent>>20)
			most := uint64(largest + perByte*len(tt.text))
			if race { // the detector's own make things larger
				most += most / 2
			}
			if spent > most {
				t.Errorf("%d bytes were allocated for %d; at most %d may be", spent, len(tt.text), most)
			}
		})
	}
}
