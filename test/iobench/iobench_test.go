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
	"strconv"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/agent/stdio"
	"github.com/mpiup/mpiup/launcher/iof"
)

// floodVar makes the test binary a program that writes so many MB of 80-byte lines.
const floodVar = "MPIUP_TEST_FLOOD_MB"

func TestMain(m *testing.M) {
	if mb, err := strconv.Atoi(os.Getenv(floodVar)); err == nil {
		block := bytes.Repeat(append(bytes.Repeat([]byte("x"), 79), '\n'), 819)
		for left := mb * 1_000_000; left > 0; {
			n, err := unix.Write(1, block[:min(left, len(block))])
			if err != nil {
				os.Exit(1)
			}
			left -= n
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

const ranks = 4

// flow runs the writers and returns how many bytes came out at the end.
func flow(tb testing.TB, mb, window int, mode iof.Mode) int64 {
	tb.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		tb.Fatal(err)
	}
	pumps := make([]*stdio.Pump, ranks)
	sink, err := iof.New(iof.Config{Stdout: w, Stderr: os.Stderr, Mode: mode, Ranks: ranks,
		Written: func(rank, n int) { pumps[rank].Grant(n) }})
	if err != nil {
		tb.Fatal(err)
	}
	var all, ends sync.WaitGroup
	for rank := range ranks {
		pump, wait := startRank(tb, rank, mb, window, sink)
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
	n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, make([]byte, 1<<20))
	if err != nil {
		tb.Error(err)
	}
	all.Wait()
	r.Close()
	return n
}

// startRank starts one writer; wait runs its pump to the end.
func startRank(tb testing.TB, rank, mb, window int, sink *iof.Sink) (pump *stdio.Pump, wait func()) {
	tb.Helper()
	f, err := stdio.Pipes(false)
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d", floodVar, mb))
	cmd.Stdout, cmd.Stderr = f.Child[1], f.Child[2]
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	f.CloseChild()
	pump = stdio.NewPump(stdio.Config{Rank: rank, Out: f.Out, Err: f.Err, Window: window,
		Emit: func(c stdio.Chunk) { sink.Write(rank, iof.Stream(c.Stream), c.Data, c.Partial, c.Time) }})
	return pump, func() {
		if cut, err := pump.Run(context.Background()); cut || err != nil {
			tb.Errorf("rank %d: cut=%v, %v", rank, cut, err)
		}
		if err := cmd.Wait(); err != nil {
			tb.Errorf("rank %d: %v", rank, err)
		}
	}
}

// Every byte arrives, whatever the window.
func TestFlow(t *testing.T) {
	for _, window := range []int{4 << 10, 64 << 10, 1 << 20} {
		if n := flow(t, 1, window, iof.Plain); n != ranks*1_000_000 {
			t.Errorf("window %d: %d bytes arrived, want %d", window, n, ranks*1_000_000)
		}
	}
}

func BenchmarkFlow(b *testing.B) {
	for _, mode := range []struct {
		name string
		mode iof.Mode
	}{{"plain", iof.Plain}, {"tag", iof.Tag}, {"json", iof.JSON}} {
		for _, window := range []int{64 << 10, 256 << 10, 1 << 20, 4 << 20} {
			b.Run(fmt.Sprintf("%s/window=%dKiB", mode.name, window>>10), func(b *testing.B) {
				const mb = 64
				b.SetBytes(ranks * mb * 1_000_000)
				for b.Loop() {
					flow(b, mb, window, mode.mode)
				}
			})
		}
	}
}
