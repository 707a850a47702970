package reap

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"golang.org/x/sync/errgroup"

	"github.com/mpiup/mpiup/internal/job"
)

// Output is what a program that was run for it wrote, and how it ended.
type Output struct {
	Out  []byte
	Err  string // the last line of standard error, or of its first 4 KiB
	Exit job.Exit
	More bool // there was more than limit bytes, by Command.Cut
}

// maxErr is how much of standard error is looked at.
const maxErr = 4 << 10

// Collect runs a program to its end and returns what it wrote; more than limit bytes are an error, or left out
// with cmd.Cut. When ctx ends it kills the program's
// group and returns ctx's error, even if the kernel does not let go of the program. cmd.Files may have what it reads, and nothing else.
func Collect(ctx context.Context, s *Supervisor, cmd Command, limit int) (o Output, err error) {
	var text []byte
	more := false
	o, err = reading(ctx, s, cmd, func(out io.Reader) (err error) {
		text, err = io.ReadAll(io.LimitReader(out, int64(limit)+1))
		if more = len(text) > limit; !more {
			return err
		}
		text = text[:limit]
		if !cmd.Cut {
			return fmt.Errorf("%s writes more than %d bytes", cmd.Argv[0], limit)
		}
		_, _ = io.Copy(io.Discard, out) // the program's end, or ctx's
		return nil
	})
	o.Out, o.More = text, more
	return o, err
}

// reading runs a program whose output take reads, until that is read, the program has ended, and the beginning of its
// errors is known. When take fails the program's group is killed.
func reading(ctx context.Context, s *Supervisor, cmd Command, take func(io.Reader) error) (o Output, err error) {
	p, out, errs, release, err := piped(ctx, s, cmd)
	if err != nil {
		return o, err
	}
	defer release()
	var reads errgroup.Group
	var errText bytes.Buffer
	reads.Go(func() error {
		err := take(out)
		if err != nil {
			_ = p.Signal(syscall.SIGKILL)
			_, _ = io.Copy(io.Discard, out)
		}
		return err
	})
	reads.Go(func() error {
		if _, err := io.CopyN(&errText, errs, maxErr); err == nil {
			_, _ = io.Copy(io.Discard, errs)
		}
		return nil
	})
	err = reads.Wait()
	select {
	case <-p.Done():
		said := strings.TrimSpace(errText.String())
		o.Exit, o.Err = p.Exit(), said[strings.LastIndexByte(said, '\n')+1:]
	case <-ctx.Done():
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return o, err
}

// piped starts a program with cmd.Files' first to read, or nothing, whose output and errors can be read. When ctx ends its group is killed
// and reading ends, whoever holds the other ends. release closes what is open.
func piped(ctx context.Context, s *Supervisor, cmd Command) (p *Process, out, errs *os.File, release func(), err error) {
	var pipes [4]*os.File // ends to read of out and err, then to write
	closeAll := func() {
		for _, f := range pipes {
			if f != nil {
				f.Close() // a second time, of some: no matter
			}
		}
	}
	for i := range 2 {
		if pipes[i], pipes[i+2], err = os.Pipe(); err != nil {
			closeAll()
			return nil, nil, nil, nil, fmt.Errorf("pipes for %s: %w", cmd.Argv[0], err)
		}
	}
	var in *os.File
	if len(cmd.Files) > 0 {
		in = cmd.Files[0]
	}
	cmd.Files = []*os.File{in, pipes[2], pipes[3]}
	if p, err = s.Start(ctx, cmd); err != nil {
		closeAll()
		return nil, nil, nil, nil, err
	}
	pipes[2].Close()
	pipes[3].Close()
	given := make(chan struct{})
	keep := context.AfterFunc(ctx, func() {
		defer close(given)
		_ = p.Signal(syscall.SIGKILL)
		pipes[0].Close()
		pipes[1].Close()
	})
	return p, pipes[0], pipes[1], func() {
		if !keep() {
			<-given
		}
		closeAll()
	}, nil
}

// Lines runs a program and calls f with each line that it writes, without its end. It does so until the program ends,
// f fails, a line has more than limit bytes, or ctx ends; then its group is killed. Out is empty. It returns when the
// program is gone, but for one that the kernel does not let go of after ctx has ended. cmd.Files must be empty.
func Lines(ctx context.Context, s *Supervisor, cmd Command, limit int, f func([]byte) error) (Output, error) {
	return reading(ctx, s, cmd, func(out io.Reader) (err error) {
		lines := bufio.NewScanner(out)
		lines.Buffer(make([]byte, 0, min(limit, 64<<10)), limit)
		for err == nil && lines.Scan() {
			err = f(lines.Bytes())
		}
		if err == nil && !errors.Is(lines.Err(), os.ErrClosed) { // closed as ctx ended
			err = lines.Err()
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", cmd.Argv[0], err)
		}
		return err
	})
}
