package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/mpiup/mpiup/test/netns"
)

// starts measures the start of jobs: /bin/true, and MPICH to the first barrier.
func (b *bench) starts(ctx context.Context, l *lab, shapes ...string) error {
	for _, shape := range shapes {
		h, p, _ := strings.Cut(shape, "x")
		hosts, _ := strconv.Atoi(h)
		ppn, _ := strconv.Atoi(p)
		var walls, barriers []float64
		for round := range b.rounds + 1 {
			wall, _, err := l.timed(ctx, hosts, ppn, "/bin/true")
			if err != nil {
				return err
			}
			if round > 0 {
				walls = append(walls, wall)
			}
			if b.hello == "" {
				continue
			}
			_, out, err := l.timed(ctx, hosts, ppn, b.hello)
			if err != nil {
				return err
			}
			barrier, err := toBarrier(out)
			if err != nil {
				return fmt.Errorf("%s: %w", shape, err)
			}
			if round > 0 {
				barriers = append(barriers, barrier)
			}
		}
		b.report(shape+" true, wall", "ms", walls, 0)
		b.report(shape+" MPICH, to the first barrier", "ms", barriers, 0)
	}
	return nil
}

var barrierLine = regexp.MustCompile(`(?m)^(\d+) ms from the command`)

func toBarrier(out string) (float64, error) {
	m := barrierLine.FindStringSubmatch(out)
	if m == nil {
		return 0, fmt.Errorf("no time in %q", out)
	}
	return strconv.ParseFloat(m[1], 64)
}

// floods measures how fast the output of four hosts comes out of the launcher.
func (b *bench) floods(ctx context.Context, l *lab) error {
	var rates []float64
	for round := range b.rounds + 1 {
		rate, _, err := b.flood(ctx, l)
		if err != nil {
			return err
		}
		if round > 0 {
			rates = append(rates, rate)
		}
	}
	b.report("4x1 output out of the launcher", "MB/s", rates, 0)
	return nil
}

// A flood is so much from each of so many hosts.
const floodHosts, floodMB = 4, 64

// flood is how many MB come out in a second of a run's whole time, and of the time from the first byte to the last, with further options of mpiup run.
func (b *bench) flood(ctx context.Context, l *lab, args ...string) (whole, flowing float64, err error) {
	cmd := l.job(ctx, floodHosts, 1, append(args, l.self, "-flood", strconv.Itoa(floodMB))...)
	cmd.Env = append(environ(time.Now()), telemetry(args)...)
	return drain(cmd)
}

// drain is how fast a flood comes out of a launcher.
func drain(cmd *netns.Cmd) (whole, flowing float64, err error) {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return 0, 0, err
	}
	start := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	buffer := make([]byte, 64<<10)
	n, err := io.ReadFull(out, buffer[:1])
	first, end := time.Now(), time.Now()
	for err == nil {
		var m int
		if m, err = out.Read(buffer); m > 0 {
			n, end = n+m, time.Now()
		}
	}
	if !errors.Is(err, io.EOF) {
		return 0, 0, err
	}
	if err := cmd.Wait(); err != nil || n != floodHosts*floodMB*1_000_000 {
		return 0, 0, fmt.Errorf("flood: %d bytes, %v", n, err)
	}
	return float64(n) / 1e6 / time.Since(start).Seconds(), float64(n) / 1e6 / end.Sub(first).Seconds(), nil
}

// kills measures from kill -9 of a rank to the end of the launcher; the others end on SIGTERM.
func (b *bench) kills(ctx context.Context, l *lab) error {
	var times []float64
	for round := range b.rounds + 1 {
		cmd := l.job(ctx, 4, 2, "sleep", "54321")
		cmd.Env = environ(time.Now())
		if err := cmd.Start(); err != nil {
			return err
		}
		ranks, err := l.untilRanks(ctx, 8, "sleep 54321")
		if err != nil {
			_ = cmd.Process.Kill()
			return err
		}
		start := time.Now()
		if err := syscall.Kill(ranks[len(ranks)-1], syscall.SIGKILL); err != nil {
			return err
		}
		err = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 128+9 {
			return fmt.Errorf("after kill -9 of a rank the launcher ended with %d: %v", code, err)
		}
		if round > 0 {
			times = append(times, ms(time.Since(start)))
		}
	}
	b.report("4x2 kill -9 of a rank to the launcher's exit", "ms", times, 50)
	return nil
}
