package reap

import (
	"bytes"
	"context"
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
}

// maxErr is how much of standard error is looked at.
const maxErr = 4 << 10

// Output runs a program to its end, with nothing to read, and returns what it wrote; more than
// limit bytes are an error. When ctx ends the program's group is killed and the error is ctx's: it
// returns then even if the kernel does not let go of the program. cmd.Files must be empty.
func (s *Supervisor) Output(ctx context.Context, cmd Command, limit int) (o Output, err error) {
	var pipes [4]*os.File // ends to read of out and err, then to write
	defer func() {
		for _, f := range pipes {
			if f != nil {
				f.Close() // a second time, of some: no matter
			}
		}
	}()
	for i := range 2 {
		if pipes[i], pipes[i+2], err = os.Pipe(); err != nil {
			return o, fmt.Errorf("pipes for %s: %w", cmd.Argv[0], err)
		}
	}
	cmd.Files = []*os.File{nil, pipes[2], pipes[3]}
	p, err := s.Start(ctx, cmd)
	if err != nil {
		return o, err
	}
	pipes[2].Close()
	pipes[3].Close()
	given := make(chan struct{})
	keep := context.AfterFunc(ctx, func() { // whoever holds the other ends, reading ends
		defer close(given)
		_ = p.Signal(syscall.SIGKILL)
		pipes[0].Close()
		pipes[1].Close()
	})
	defer func() {
		if !keep() {
			<-given
		}
	}()
	var reads errgroup.Group
	var errText bytes.Buffer
	reads.Go(func() (err error) {
		o.Out, err = io.ReadAll(io.LimitReader(pipes[0], int64(limit)+1))
		if err == nil && len(o.Out) > limit {
			_ = p.Signal(syscall.SIGKILL)
			return fmt.Errorf("%s writes more than %d bytes", cmd.Argv[0], limit)
		}
		return err
	})
	reads.Go(func() error {
		if _, err := io.CopyN(&errText, pipes[1], maxErr); err == nil {
			_, _ = io.Copy(io.Discard, pipes[1])
		}
		return nil
	})
	err = reads.Wait()
	if ctx.Err() != nil {
		return o, ctx.Err()
	}
	if err != nil {
		return o, err
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		return o, ctx.Err()
	}
	o.Exit, o.Err = p.Exit(), lastLine(errText.String())
	return o, nil
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}
