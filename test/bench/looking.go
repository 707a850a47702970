package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/mpiup/mpiup/test/netns"
)

const sinkAddress = "127.0.0.1:24318"

// sink takes what a run sends by OTLP, and keeps nothing.
func sink() error {
	server := &http.Server{Addr: sinkAddress, ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // whose end the sender sees
		w.Header().Set("Content-Type", "application/x-protobuf")
	})}
	return server.ListenAndServe()
}

// looking measures what it costs to look at a run: with all that looks on, in turn with all of it off.
func (b *bench) looking(ctx context.Context, l *lab) error {
	s := l.cluster.Command(ctx, netns.Launcher, l.self, "-sink")
	if err := s.Start(); err != nil {
		return err
	}
	defer func() { _ = s.Process.Kill(); _ = s.Wait() }()
	var barriers, rates, sizes [2][]float64 // all off, all on
	for round := range b.rounds + 1 {
		for on := range 2 {
			args := append(looks(b.dir, on == 1), b.hello)
			_, out, err := l.timed(ctx, 16, 1, args...)
			if err != nil {
				return err
			}
			barrier, err := toBarrier(out)
			if err != nil {
				return err
			}
			if round > 0 {
				barriers[on] = append(barriers[on], barrier)
			}
		}
	}
	b.compare("16x1 MPICH, to the first barrier, all that looks on", "ms", barriers[1], "off", barriers[0], 1.05)
	for round := range b.rounds + 1 {
		for on := range 2 {
			_, rate, err := b.flood(ctx, l, looks(b.dir, on == 1)...)
			if err != nil {
				return err
			}
			if round > 0 {
				rates[on] = append(rates[on], rate)
			}
		}
	}
	b.report("4x1 output from its first byte to its last, all that looks on", "MB/s", rates[1], 0)
	b.report("4x1 output, off", "MB/s", rates[0], 0)
	b.report("4x1 output, ratio of off to on", "", []float64{median(rates[0]) / median(rates[1])}, 1.031) // that of on to off at least 0.97
	for range max(1, b.rounds/7) {
		for on := range 2 {
			size, err := b.sizeOf(ctx, l, looks(b.dir, on == 1))
			if err != nil {
				return err
			}
			sizes[on] = append(sizes[on], size)
		}
	}
	b.report("the launcher of 16x32 ranks, all that looks on, PSS", "MB", sizes[1], 0)
	b.report("the launcher of 16x32 ranks, off, PSS", "MB", sizes[0], 0)
	b.report("the launcher of 16x32 ranks, what looking adds", "MB", []float64{median(sizes[1]) - median(sizes[0])}, 5)
	return nil
}

// looks are mpiup run's options for all that looks at a run, or for none of it.
func looks(dir string, on bool) []string {
	if !on {
		return []string{"--stall-timeout", "0", "--init-timeout", "0", "--watch-ranks=false"}
	}
	return []string{"--metrics", "127.0.0.1:0", "--watch-ranks", "--watch", `step (?P<step>\d+)`, "--watch-rank", "each", "--report", filepath.Join(dir, "report")}
}

// telemetry is what a launcher's environment has besides where looks are on.
func telemetry(args []string) []string {
	if slices.Contains(args, "--watch-ranks") {
		return []string{"OTEL_EXPORTER_OTLP_ENDPOINT=http://" + sinkAddress}
	}
	return nil
}

// sizeOf is the launcher's memory while 512 ranks of 16 hosts run, once it has settled.
func (b *bench) sizeOf(ctx context.Context, l *lab, args []string) (float64, error) {
	cmd := l.job(ctx, 16, 32, append(args, "sleep", "54321")...)
	cmd.Env = append(environ(time.Now()), telemetry(args)...)
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}()
	if _, err := l.untilRanks(ctx, 16*32, "sleep 54321"); err != nil {
		return 0, err
	}
	select {
	case <-ctx.Done():
		return 0, ctx.Err()
	case <-time.After(settles):
	}
	m, err := memoryOf(cmd.Process.Pid)
	if err != nil {
		return 0, fmt.Errorf("launcher: %w", err)
	}
	return m.pss, nil
}
