package doctor

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// errNoResult is output in which nothing was measured.
var errNoResult = errors.New("it printed no result")

// number is a value that something can be compared with.
func number(text string) (float64, bool) {
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil && f > 0 && f < maxValue
}

// maxValue is beyond all that is measured; hostile numbers stay below what overflows.
const maxValue = 1e15

// atSize reads the tables of OSU's programs: rows of a size in bytes and a value, below comments that begin with
// '#' (osu_print_header and what follows it in versions 5 to 7). With -f there are more columns; the first is
// the average.
func atSize(size int) func(string) (float64, error) {
	return func(output string) (float64, error) {
		for line := range strings.Lines(output) {
			f := strings.Fields(line)
			if len(f) < 2 || f[0] != strconv.Itoa(size) {
				continue
			}
			if v, ok := number(f[1]); ok {
				return v, nil
			}
		}
		return 0, errNoResult
	}
}

// perftestRate reads perftest's table, whose head names the unit:
//
//	#bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
//	1048576    5000             98.02              97.98              0.011680
func perftestRate(output string) (float64, error) {
	scale := 0.0
	for line := range strings.Lines(output) {
		f := strings.Fields(line)
		switch {
		case strings.Contains(line, "BW average[Gb/sec]"):
			scale = 1e9 / 8 / 1e6
		case strings.Contains(line, "BW average[MB/sec]"), strings.Contains(line, "BW average[MiB/sec]"):
			scale = (1 << 20) / 1e6 // it says MB, and means 2^20
		case scale > 0 && len(f) >= 4:
			if _, err := strconv.Atoi(f[0]); err != nil {
				continue
			}
			if v, ok := number(f[3]); ok {
				return v * scale, nil
			}
		}
	}
	return 0, errNoResult
}

// ncclRate reads nccl-tests' last line, "# Avg bus bandwidth    : 480.123", in 10^9 bytes a second. Processes that
// were built without MPI each print a head, "# nThread 1 nGpus ...", of their own.
func ncclRate(output string) (float64, error) {
	heads, rate := 0, math.NaN()
	for line := range strings.Lines(output) {
		if strings.Contains(line, "nThread ") {
			heads++
		}
		if _, value, ok := strings.Cut(line, "Avg bus bandwidth"); ok {
			if v, ok := number(strings.Trim(value, " :\t\r\n")); ok {
				rate = v * 1e3
			}
		}
	}
	switch {
	case heads > 1:
		return 0, fmt.Errorf("its processes do not know of each other: it was built without MPI (make MPI=1)")
	case math.IsNaN(rate):
		return 0, errNoResult
	}
	return rate, nil
}
