package reap

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// Lines runs a program and calls f with each line that it writes, without its end, until the program ends, f or a line
// of more than limit bytes is an error, or ctx ends; then its group is killed. Out is empty. It returns when the program
// is gone, but for one that the kernel does not let go of after ctx has ended. cmd.Files must be empty.
func (s *Supervisor) Lines(ctx context.Context, cmd Command, limit int, f func([]byte) error) (Output, error) {
	return s.reading(ctx, cmd, func(out io.Reader) error {
		if err := eachLine(out, limit, f); err != nil {
			return fmt.Errorf("%s: %w", cmd.Argv[0], err)
		}
		return nil
	})
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
