package examine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/trial"
	"github.com/mpiup/mpiup/launcher"
	"github.com/mpiup/mpiup/launcher/doctor"
	"github.com/mpiup/mpiup/launcher/survey"
)

// TrialConfig is what is tried on every host as part of a Doctor. All of it is started as ranks are: agents' policies allow or
// refuse it by the word run.
type TrialConfig struct {
	Shared  string        // a directory that hosts should share; "": none
	Size    int64         // bytes that each host writes there
	Compute time.Duration // each CPU computes for so long; 0: none
	Checks  []string      // commands of the site's own, for sh
	Limit   time.Duration // of each of those
}

// own is the agent's own program, wherever its image has it: the child that becomes the rank still is that program when it
// looks the path up.
const own = "/proc/self/exe"

// sharedPatience is for others' files to appear. Nobody has looked for them before, so no NFS client can have kept that they are
// not there.
const sharedPatience = 10 * time.Second

// trials runs what is asked for, one after the other, each on all hosts at once.
func (c *Config) trials(ctx context.Context, e *examined) error {
	t := c.Trials
	if len(e.reached) == 0 || t.Shared == "" && t.Compute == 0 && t.Checks == nil {
		return nil
	}
	b := &bench{cfg: c, hosts: e.reached, start: launcher.Run}
	if t.Shared != "" {
		doctor.JudgeShared(e.report, b.shared(ctx, t.Shared, t.Size))
	}
	if t.Compute > 0 {
		b.compute(ctx, e.report, t.Compute)
	}
	for _, command := range t.Checks {
		doctor.JudgeChecked(e.report, b.check(ctx, command, t.Limit))
	}
	return nil
}

// each runs a command on each host, on all at once.
func (b *bench) each(ctx context.Context, limit time.Duration, merge bool, argv func(host int) []string) []outcome {
	all := make([]outcome, len(b.hosts))
	survey.InParallel(len(b.hosts), func(i int) {
		all[i] = b.job(ctx, argv(i), job.NoProtocol, limit, merge, part{i, 1})
	})
	return all
}

// result is what a trial printed; one that failed has an error.
func result[T trial.Shared | trial.Computed](o outcome, failed func(error) T) T {
	err := o.err()
	if err == nil {
		var v T
		if v, err = trial.Parse[T](o.out); err == nil {
			return v
		}
	}
	return failed(err)
}

func (b *bench) names() (names []string) {
	for i := range b.hosts {
		names = append(names, b.name(i))
	}
	return names
}

// shared tries a directory in phases, and removes what they made, also where the user ends the trial.
func (b *bench) shared(ctx context.Context, dir string, size int64) *doctor.SharedTrial {
	var raw [16]byte
	rand.Read(raw[:]) // never fails (crypto/rand)
	token := hex.EncodeToString(raw[:])
	s := &doctor.SharedTrial{Dir: dir, Hosts: b.names()}
	phase := func(ctx context.Context, name string) []trial.Shared {
		all := b.each(ctx, wholeLimit, false, func(i int) []string {
			return []string{own, "trial", "shared", name, dir, token, strconv.Itoa(i), strconv.Itoa(len(b.hosts)), strconv.FormatInt(size, 10), sharedPatience.String()}
		})
		results := make([]trial.Shared, len(all))
		for i, o := range all {
			results[i] = result(o, func(err error) trial.Shared { return trial.Shared{Error: err.Error()} })
		}
		return results
	}
	s.Write = phase(ctx, "write")
	written := true
	for _, w := range s.Write {
		written = written && w.Error == ""
	}
	if written {
		s.Read = phase(ctx, "read")
	}
	for _, r := range phase(context.WithoutCancel(ctx), "clean") {
		s.Count = max(s.Count, r.Count) // the first to remove it has read it
		if r.Error != "" && s.Left == "" && written {
			s.Left = fmt.Sprintf("%s (%s)", path.Join(dir, ".mpiup-doctor-"+token), r.Error)
		}
	}
	return s
}

func (b *bench) compute(ctx context.Context, report *doctor.Report, d time.Duration) {
	all := b.each(ctx, d+wholeLimit, false, func(int) []string { return []string{own, "trial", "compute", d.String()} })
	results, gpus := make([]trial.Computed, len(all)), make([]int, len(all))
	for i, o := range all {
		results[i] = result(o, func(err error) trial.Computed { return trial.Computed{Error: err.Error()} })
		gpus[i] = b.hosts[i].found.GPUs
	}
	doctor.JudgeComputed(report, b.names(), results, gpus)
}

// Bounds of what is shown of a check's output.
const (
	checkLines = 4
	checkWidth = 160 // bytes
)

func (b *bench) check(ctx context.Context, command string, limit time.Duration) doctor.Checked {
	c := doctor.Checked{Command: command}
	for i, o := range b.each(ctx, limit, true, func(int) []string { return []string{"/bin/sh", "-c", command} }) {
		one := doctor.Outcome{Host: b.name(i), Code: o.code, Lines: lastLines(o.out)}
		if o.code >= job.ExitUsage { // mpiup's own codes
			if err := o.err(); err != nil {
				one.Error = err.Error()
			}
		}
		c.Outcomes = append(c.Outcomes, one)
	}
	return c
}

// lastLines are the last of an output that are not empty.
func lastLines(output string) (lines []string) {
	for line := range strings.Lines(output) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, strings.ToValidUTF8(line[:min(len(line), checkWidth)], ""))
		}
	}
	return lines[max(0, len(lines)-checkLines):]
}
