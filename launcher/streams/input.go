// Package streams is the launcher's own standard streams. It reads input for ranks as fast as the slowest takes it. A write of
// output that blocks can be interrupted. It makes a terminal raw and restores it.
//
//	stdin ──▶ Input: poll, read ──▶ InputConfig.Send     as many bytes as every target has window for
//	iof   ──▶ Output.Write      ──▶ stdout, stderr
//
// The shell and others share a stream with us, so its flags stay as they are. The package opens a pipe or terminal
// anew, or asks poll(2) before each read and write.
//
// Concurrency: Input.Run and Output.Write block their caller alone; Input.Run waits for the one goroutine that it starts.
// Grant, Gone and Interrupt may be called from any goroutine.
//
// The package knows no frames and no lines: launcher sends what is read, iof makes the lines.
package streams

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/mpiup/mpiup/internal/idset"
)

// InputConfig says who gets the launcher's standard input.
type InputConfig struct {
	File    *os.File // the launcher's standard input
	Targets []int    // ranks that get it; none: it is not touched
	// Window is how many bytes may be on their way to one rank. Default 64 KiB, the agent's
	// limit (stdio.DefaultInputLimit).
	Window int
	// Send takes a frame for all targets that are left; data is the receiver's. eof: nothing
	// comes after it; data is then empty. Called from Run.
	Send func(data []byte, eof bool)
}

// DefaultInputWindow is the window of standard input towards one rank, in bytes.
const DefaultInputWindow = 64 << 10

// inputFrame is what one frame carries at most.
const inputFrame = 32 << 10

// Input reads the launcher's standard input as fast as the slowest target takes it. It reads nothing when there is no
// target, and nothing from a terminal while the launcher is in the background. Its shell reads then, and SIGTTIN
// would stop the launcher.
//
// Grant gives back bytes of a rank's window; Gone says that a rank has ended. After the last one Run ends, and the rest of
// the input is left to whoever reads it next.
type Input struct {
	*Pace
	cfg InputConfig
}

// NewInput returns an Input that Run serves.
func NewInput(cfg InputConfig) *Input {
	cfg.Window = cmp.Or(cfg.Window, DefaultInputWindow)
	return &Input{NewPace(cfg.Targets, cfg.Window), cfg}
}

// Targets is the meaning of --stdin: "all", "none", a rank or a list of them, "0,2-3"; empty means rank 0.
func Targets(which string, ranks int) ([]int, error) {
	switch which {
	case "none":
		return nil, nil
	case "all":
		all := make([]int, ranks)
		for r := range all {
			all[r] = r
		}
		return all, nil
	case "":
		which = "0"
	}
	set, err := idset.Parse(which)
	if err != nil || set.Empty() || set.Last() >= ranks {
		return nil, fmt.Errorf("--stdin %s: want all, none or ranks from 0 to %d", which, ranks-1)
	}
	return set.Slice(), nil
}

// Run reads until the end of the input, the last target's end, or the end of ctx, and leaves
// no read behind.
func (in *Input) Run(ctx context.Context) error {
	if len(in.cfg.Targets) == 0 {
		return nil
	}
	src, err := openSource(in.cfg.File)
	if err != nil {
		in.cfg.Send(nil, true)
		if errors.Is(err, errWriteOnly) {
			return nil
		}
		return fmt.Errorf("standard input: %w", err)
	}
	defer src.close()

	// The source waits in poll(2), which only its event descriptor ends: this goroutine hands it
	// what changes here.
	reads := make(chan readResult, 1)
	var reader sync.WaitGroup
	reader.Go(func() { src.serve(reads) })
	defer reader.Wait()
	defer src.stop()
	return in.pass(ctx, src, reads)
}

// pass asks the source for as much as the window allows, again and again.
func (in *Input) pass(ctx context.Context, src *source, reads <-chan readResult) error {
	asked := false
	for {
		n, ok := in.Room(inputFrame)
		if !ok {
			return nil
		}
		if n > 0 && !asked {
			src.ask <- n
			asked = true
		}
		select {
		case r := <-reads:
			asked = false
			if len(r.data) > 0 {
				in.Spend(len(r.data))
				in.cfg.Send(r.data, false)
			}
			if r.err != nil {
				in.cfg.Send(nil, true)
				if errors.Is(r.err, io.EOF) {
					return nil
				}
				return fmt.Errorf("standard input: %w", r.err)
			}
		case <-in.Changed():
		case <-ctx.Done():
			return nil
		}
	}
}
