package host

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/mpiup/mpiup/gpu"
)

// noProgram is a host whose programs tell nothing.
func noProgram(context.Context, []string) (gpu.Result, error) {
	return gpu.Result{}, errors.New("no such program")
}

// A host's programs are asked once, and by every launch that is not given up.
func TestGPUsAreAskedOnce(t *testing.T) {
	a := New(Config{Log: slog.New(slog.DiscardHandler), Run: noProgram})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	first := a.GPUs(ctx)
	a.gpus.inv.Source = "the first answer"
	if again := a.GPUs(ctx); again.Source != "the first answer" {
		t.Errorf("asked again: %q, then %q", first.Source, again.Source)
	}
	b := New(Config{Log: slog.New(slog.DiscardHandler), Run: noProgram})
	cancel()
	b.GPUs(ctx)
	if b.gpus.asked {
		t.Error("the answer of a launch that was given up is kept")
	}
}
