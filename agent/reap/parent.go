package reap

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/mpiup/mpiup/internal/job"
)

// Parent is who programs are run by outside of an agent: made when the first one is run, and gone after done.
func Parent() (super func() *Supervisor, done func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	super = sync.OnceValue(func() *Supervisor {
		s := New(Config{Log: slog.New(slog.DiscardHandler)})
		running.Go(func() { _ = s.Run(ctx) }) // what hangs in the kernel ends without us
		return s
	})
	return super, func() {
		cancel()
		running.Wait()
	}
}

// Heard runs a program outside of an agent, and gives the first most bytes of what it writes, the last line of its errors, and its end. When
// ctx ends it is killed.
func Heard(ctx context.Context, argv, env []string, most int) (out []byte, more bool, last string, end job.Exit, err error) {
	super, done := Parent()
	defer done()
	o, err := Collect(ctx, super(), Command{Argv: argv, Env: env, Cut: true}, most)
	return o.Out, o.More, o.Err, o.Exit, err
}

// Feeder runs a program that reads a text, each time that it is called, and gives the last line of what it says where it does not end well.
// When ctx ends it is killed. It is nil of no program.
func Feeder(program string, env []string) func(ctx context.Context, text []byte) (said string, err error) {
	if program == "" {
		return nil
	}
	return func(ctx context.Context, text []byte) (string, error) { return feed(ctx, program, env, text) }
}

func feed(ctx context.Context, program string, env []string, text []byte) (said string, err error) {
	fd, err := unix.MemfdCreate("mpiup", unix.MFD_CLOEXEC)
	if err != nil {
		return "", err
	}
	in := os.NewFile(uintptr(fd), "memfd")
	defer in.Close()
	if _, err := in.WriteAt(text, 0); err != nil {
		return "", err
	}
	super, done := Parent()
	defer done()
	const most = 4 << 10
	o, err := Collect(ctx, super(), Command{Argv: []string{program}, Env: env, Files: []*os.File{in}, Cut: true}, most)
	if err == nil && o.Exit.Status() != 0 {
		return cmp.Or(o.Err, fmt.Sprintf("%s ended with %v", program, o.Exit)), nil
	}
	return "", err
}
