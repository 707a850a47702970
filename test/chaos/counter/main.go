// Command counter is the long job of the chaos tests: every rank writes "RANK N" lines, N
// counting from 0, so that a lost or doubled line shows. SIGUSR1 ends it with "RANK end N",
// SIGTERM with "RANK term N".
package main

import (
	"bufio"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	every := flag.Duration("every", 20*time.Millisecond, "between two lines")
	deaf := flag.Bool("deaf", false, "ignore SIGTERM")
	flag.Parse()
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGUSR1)
	if *deaf {
		signal.Ignore(syscall.SIGTERM)
	} else {
		signal.Notify(signals, syscall.SIGTERM)
	}
	out := bufio.NewWriter(os.Stdout)
	rank := os.Getenv("MPIUP_RANK")
	tick := time.NewTicker(*every)
	for n := 0; ; n++ {
		fmt.Fprintln(out, rank, n)
		if err := out.Flush(); err != nil {
			os.Exit(3)
		}
		select {
		case s := <-signals:
			if s == syscall.SIGTERM {
				fmt.Fprintln(out, rank, "term", n)
				_ = out.Flush()
				os.Exit(0)
			}
			fmt.Fprintln(out, rank, "end", n)
			_ = out.Flush()
			return
		case <-tick.C:
		}
	}
}
