package reap

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sync/errgroup"
)

// Lines runs a program and calls f with each line that it writes, without its end, until the program ends, f or a line
// of more than limit bytes is an error, or ctx ends; then its group is killed. Out is empty. It returns when the program
// is gone, but for one that the kernel does not let go of after ctx has ended. cmd.Files must be empty.
func (s *Supervisor) Lines(ctx context.Context, cmd Command, limit int, f func([]byte) error) (o Output, err error) {
	p, out, errs, release, err := s.piped(ctx, cmd)
	if err != nil {
		return o, err
	}
	defer release()
	var reads errgroup.Group
	var errText bytes.Buffer
	reads.Go(func() error {
		err := eachLine(out, limit, f)
		if err != nil {
			_ = p.Signal(syscall.SIGKILL)
			_, _ = io.Copy(io.Discard, out)
		}
		return err
	})
	reads.Go(func() error {
		firstOf(&errText, errs)
		return nil
	})
	err = reads.Wait()
	select {
	case <-p.Done():
		o.Exit, o.Err = p.Exit(), lastLine(errText.String())
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", cmd.Argv[0], err)
	}
	return o, err
}

func eachLine(r io.Reader, limit int, f func([]byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, min(limit, 64<<10)), limit)
	for lines.Scan() {
		if err := f(lines.Bytes()); err != nil {
			return err
		}
	}
	if err := lines.Err(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
