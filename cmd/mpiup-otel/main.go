// Command mpiup-otel sends what a run did by OTLP: spans and last metrics, once it is over.
//
//	mpiup run ──runmetrics.Finished as JSON──▶ mpiup-otel ──OTLP, as OTEL_* say──▶ a collector
//
//	run ─ attempt ─ gather, place, launch, wire, run, stop     what the launcher saw, one each
//	                  └ gather, launch, run, stop of a host    as far as that is known of each
//	                      └ rank                               below run; its TRACEPARENT names this span
//
// It is a program of its own since mpiup would carry OTLP's libraries else, and each mpiup version would pay for them. mpiup runs it where it
// stands beside it, for two seconds at most. It sends nothing but what it reads, and that once.
//
// Exit codes: 0 sent; 1 not sent, with the reason in a line of standard error; 2 wrong arguments.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/sdk/resource"

	"github.com/mpiup/mpiup/internal/awake"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher/report"
	"github.com/mpiup/mpiup/launcher/runmetrics"
)

// patience is less than mpiup's own, so that what keeps it can be said.
const patience = runmetrics.SendBound - 200*time.Millisecond

func main() { os.Exit(run(os.Args[1:], os.Getenv, os.Stdin, os.Stderr)) }

func run(args []string, getenv func(string) string, stdin io.Reader, stderr io.Writer) int {
	if len(args) > 0 {
		fmt.Fprintln(stderr, "mpiup-otel: it takes no arguments: mpiup runs it at the end of a run, where OTEL_EXPORTER_OTLP_ENDPOINT is set")
		return 2
	}
	ctx, cancel := awake.Within(context.Background(), patience)
	defer cancel()
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {})) // what counts is returned
	f, err := read(stdin)
	if err == nil {
		err = send(ctx, getenv, f)
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("no answer in %v from where OTEL_EXPORTER_OTLP_* say", patience)
	}
	if err != nil {
		visible.Fprintln(stderr, "mpiup-otel:", strings.ReplaceAll(err.Error(), "\n", "; "))
		return 1
	}
	return 0
}

// read reads a run, which the launcher has bounded.
func read(stdin io.Reader) (*runmetrics.Finished, error) {
	text, err := bounded.Read(stdin, runmetrics.MaxFinished)
	if err != nil {
		return nil, fmt.Errorf("the run on standard input: %w", err)
	}
	var is struct {
		runmetrics.Finished
		Report json.RawMessage `json:"report"` // which package report reads
	}
	if err := json.Unmarshal(text, &is); err != nil {
		return nil, fmt.Errorf("the run on standard input: %w", err)
	}
	f := &is.Finished
	if f.Version != runmetrics.FinishedVersion || len(is.Report) == 0 {
		return nil, fmt.Errorf("it reads runs of form %d, and this one is of form %d; take mpiup and mpiup-otel from one build",
			runmetrics.FinishedVersion, f.Version)
	}
	if f.Report, err = report.Parse(is.Report); err != nil {
		return nil, fmt.Errorf("the run on standard input: %w", err)
	}
	return f, nil
}

// send sends spans and metrics, as far as the environment asks for them, at the same time.
func send(ctx context.Context, getenv func(string) string, f *runmetrics.Finished) error {
	is, err := described(ctx, f)
	if err != nil {
		return err
	}
	traces, metrics := runmetrics.Sends(getenv)
	type sender func(context.Context, func(string) string, *resource.Resource, *runmetrics.Finished) error
	var ways []sender
	if traces {
		ways = append(ways, sendSpans)
	}
	if metrics {
		ways = append(ways, sendMetrics)
	}
	ended := make(chan error, len(ways))
	for _, way := range ways {
		go func() { ended <- way(ctx, getenv, is, f) }()
	}
	for range ways {
		err = errors.Join(err, <-ended)
	}
	return err
}
