package gloo

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/rendezvous"
)

// lightTime bounds a rendezvous of light clients.
const lightTime = 75 * time.Second

// 512 clients that are goroutines of this process ask what recorded ones asked in the scope of all ranks: the ports of 64
// hosts' servers, which tell each other here, and Horovod's own server, whose Python $MPIUP_HOROVOD names. Run it once
// (-benchtime 1x).
func BenchmarkFiveHundredClients(b *testing.B) {
	const hosts, perHost = 64, 8
	b.Run("mpiup", func(b *testing.B) {
		for b.Loop() {
			st := starOf(b, hosts, perHost, nil, nil)
			meetLightly(b, hosts*perHost, func(rank int) string { return fmt.Sprintf("127.0.0.1:%d", st.servers[rank/perHost].Port(rank)) })
			st.close()
		}
	})
	b.Run("Horovod", func(b *testing.B) {
		python := os.Getenv("MPIUP_HOROVOD")
		if python == "" {
			b.Log("$MPIUP_HOROVOD names no Python with Horovod")
			return
		}
		for b.Loop() {
			cmd := exec.Command(python, "../../test/bench/server.py", fmt.Sprintf("%dx%d", hosts, perHost))
			in, err := cmd.StdinPipe()
			if err != nil {
				b.Fatal(err)
			}
			out, err := cmd.StdoutPipe()
			if err != nil {
				b.Fatal(err)
			}
			if err := cmd.Start(); err != nil {
				b.Fatal(err)
			}
			port, err := bufio.NewReader(out).ReadString('\n')
			if err != nil {
				b.Fatal(err)
			}
			meetLightly(b, hosts*perHost, func(int) string { return "127.0.0.1:" + strings.TrimSpace(port) })
			in.Close()
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
}

// meetLightly has clients meet, and reports how many did in time and how fast they were answered.
func meetLightly(b *testing.B, size int, server func(rank int) string) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), lightTime)
	defer cancel()
	var asked, useful, met atomic.Int64
	var all sync.WaitGroup
	begun := time.Now()
	for rank := range size {
		all.Go(func() {
			sc := rendezvous.Scope{Name: "global", Rank: rank, Size: size}
			check := check(sc.Name, 0, size, func(i int) int { return i })
			c := &rendezvous.Client{Server: server(rank), Value: func(_, _ string, bytes int) []byte { return stamped(rank, 0, bytes) },
				Seen: func(scope, key string, value []byte) error { useful.Add(1); return check(scope, key, value) }}
			err := c.Meet(ctx, sc)
			if err == nil {
				err = c.Finish(ctx, sc)
			}
			asked.Add(int64(c.Asked))
			switch {
			case err == nil:
				met.Add(1)
			case ctx.Err() == nil:
				b.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	all.Wait()
	took := time.Since(begun).Seconds()
	b.ReportMetric(took, "s")
	b.ReportMetric(float64(met.Load()), "met")
	b.ReportMetric(float64(asked.Load())/took, "answers/s")
	b.ReportMetric(float64(useful.Load())/took, "values/s")
	b.ReportMetric(float64(useful.Load()), "values")
	b.ReportMetric(0, "ns/op")
}
