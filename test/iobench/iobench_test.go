// Package iobench measures both ends of the ranks' output in one process: programs that write
// as fast as they can, agent/stdio, launcher/iof, and a reader at the end of a pipe. What lies between
// the two (numbered frames, gRPC, TLS) is left out: this is the most that it can reach.
//
//	go test -run '^$' -bench . -benchtime 1x -cpuprofile cpu.out ./test/iobench
package iobench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/stdio"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/iof"
)

// writerVar makes the test binary a program that writes: "RANK BYTES SIZE", in writes of SIZE.
const writerVar = "MPIUP_TEST_WRITER"

func TestMain(m *testing.M) {
	if plan := os.Getenv(writerVar); plan != "" {
		os.Exit(write(plan))
	}
	goleak.VerifyTestMain(m)
}

// lineSize is the length of a line with its end.
const lineSize = 80

// block is lines of a rank, each with the rank and the line's number in the block.
func block(rank int) []byte {
	var b []byte
	for i := range 819 {
		b = fmt.Appendf(b, "%d %*d\n", rank, lineSize-3, i)
	}
	return b
}

func write(plan string) int {
	var rank, total, size int
	if _, err := fmt.Sscan(plan, &rank, &total, &size); err != nil {
		return 2
	}
	b := block(rank)
	for done := 0; done < total; {
		from := done % len(b)
		n, err := unix.Write(1, b[from:min(len(b), from+size, from+total-done)])
		if err != nil {
			return 1
		}
		done += n
	}
	return 0
}

const ranks = 4

// load is what the writers do and what becomes of it.
type load struct {
	bytes  int // of each rank
	size   int // of a write
	window int
	mode   iof.Mode
}

// flow runs the writers and copies what comes out at the end to w.
func flow(tb testing.TB, l load, to io.Writer) {
	tb.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	pumps := make([]*stdio.Pump, ranks)
	sink, err := iof.New(iof.Config{Stdout: w, Stderr: os.Stderr, Mode: l.mode, Ranks: ranks,
		Written: func(rank, n int) { pumps[rank].Grant(n) }})
	if err != nil {
		tb.Fatal(err)
	}
	var all, ends sync.WaitGroup
	for rank := range ranks {
		pump, wait := startRank(tb, rank, l, sink)
		pumps[rank] = pump
		ends.Go(func() { wait(); sink.End(rank) })
	}
	all.Go(func() {
		if err := sink.Run(context.Background()); err != nil {
			tb.Error(err)
		}
		w.Close()
	})
	all.Go(func() { ends.Wait(); sink.Close() })
	if _, err := io.CopyBuffer(to, struct{ io.Reader }{r}, make([]byte, 1<<20)); err != nil {
		tb.Error(err)
	}
	all.Wait()
	r.Close()
}

// startRank starts one writer; wait runs its pump to the end.
func startRank(tb testing.TB, rank int, l load, sink *iof.Sink) (pump *stdio.Pump, wait func()) {
	tb.Helper()
	f, err := stdio.Pipes(false)
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %d", writerVar, rank, l.bytes, l.size))
	cmd.Stdout, cmd.Stderr = f.Child[1], f.Child[2]
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	f.CloseChild()
	pump = stdio.NewPump(stdio.Config{Rank: rank, Out: f.Out, Err: f.Err, Window: l.window,
		Emit: func(c stdio.Chunk) { sink.Write(rank, job.Stream(c.Stream), c.Data, c.Partial, c.Time) }})
	return pump, func() {
		if cut, err := pump.Run(context.Background()); cut || err != nil {
			tb.Errorf("rank %d: cut=%v, %v", rank, cut, err)
		}
		if err := cmd.Wait(); err != nil {
			tb.Errorf("rank %d: %v", rank, err)
		}
	}
}

// Every line of every rank arrives whole and in order, whatever the window and the writes.
func TestFlow(t *testing.T) {
	for _, window := range []int{4 << 10, 64 << 10, 1 << 20} {
		for _, size := range []int{333, 4096, 65520} {
			t.Run(fmt.Sprintf("window=%d/write=%d", window, size), func(t *testing.T) {
				const lines = 5 * 819
				var out bytes.Buffer
				flow(t, load{bytes: lines * lineSize, size: size, window: window}, &out)
				next := make([]int, ranks)
				for line := range bytes.Lines(out.Bytes()) {
					rank := int(line[0] - '0')
					if rank < 0 || rank >= ranks || !bytes.Equal(line, fmt.Appendf(nil, "%d %*d\n", rank, lineSize-3, next[rank]%819)) {
						t.Fatalf("line %q after %v lines of each rank", line, next)
					}
					next[rank]++
				}
				for rank, n := range next {
					if n != lines {
						t.Errorf("rank %d: %d lines of %d", rank, n, lines)
					}
				}
			})
		}
	}
}

// nowhere is io.Discard without ReadFrom, which would read in small pieces.
type nowhere struct{}

func (nowhere) Write(b []byte) (int, error) { return len(b), nil }

func BenchmarkFlow(b *testing.B) {
	modes := map[iof.Mode]string{iof.Plain: "plain", iof.Tag: "tag", iof.JSON: "json"}
	for _, mode := range []iof.Mode{iof.Plain, iof.Tag, iof.JSON} {
		for _, window := range []int{64 << 10, 256 << 10, 1 << 20, 4 << 20} {
			b.Run(fmt.Sprintf("%s/window=%dKiB", modes[mode], window>>10), func(b *testing.B) {
				l := load{bytes: 64_000_000, size: 65520, window: window, mode: mode}
				b.SetBytes(int64(ranks * l.bytes))
				for b.Loop() {
					flow(b, l, nowhere{})
				}
			})
		}
	}
}

// BenchmarkWrites: lines one by one (unbuffered), stdio's buffer, large blocks.
func BenchmarkWrites(b *testing.B) {
	for _, size := range []int{lineSize, 4096, 65520} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			l := load{bytes: 16_000_000, size: size, window: 1 << 20}
			b.SetBytes(int64(ranks * l.bytes))
			for b.Loop() {
				flow(b, l, nowhere{})
			}
		})
	}
}
