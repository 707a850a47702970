package examine

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/internal/visible"
	"github.com/mpiup/mpiup/launcher"
	"github.com/mpiup/mpiup/launcher/doctor"
	"github.com/mpiup/mpiup/launcher/survey"
)

// TrialConfig is what is tried on every host as part of a Doctor. All of it is started as ranks are: agents' policies allow or
// refuse it by the word run.
type TrialConfig struct {
	Shared string        // a directory that hosts should share; "": none
	Size   int64         // bytes that each host writes there
	Checks []string      // commands of the site's own, for sh
	Limit  time.Duration // of each of those
}

// self is the agent's own program, wherever its image has it: the child that becomes the rank still is that program when it
// looks the path up.
const self = "/proc/self/exe"

// sharedPatience is for others' files to appear. Nobody has looked for them before, so no NFS client can have kept that they are
// not there.
const sharedPatience = 10 * time.Second

// trials runs what is asked for, one after the other, each on all hosts at once.
func (c *Config) trials(ctx context.Context, e *examined) {
	t := c.Trials
	if len(e.reached) == 0 {
		return
	}
	b := &bench{cfg: c, hosts: e.reached, start: launcher.Run}
	if t.Shared != "" {
		doctor.JudgeShared(e.report, b.shared(ctx, t.Shared, t.Size))
	}
	for _, command := range t.Checks {
		if ctx.Err() != nil {
			break
		}
		doctor.JudgeChecked(e.report, b.check(ctx, command, t.Limit))
	}
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
func result(o outcome) job.DirTrial {
	err := o.err()
	if err == nil {
		var v job.DirTrial
		if v, err = job.ParseTrial(o.out); err == nil {
			return v
		}
	}
	return job.DirTrial{Error: err.Error()}
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
	s, own := &doctor.SharedTrial{Dir: visible.UTF8(dir), Hosts: b.names()}, path.Join(dir, ".mpiup-doctor-"+token)
	phase := func(ctx context.Context, name string) []job.DirTrial {
		all := b.each(ctx, wholeLimit, false, func(i int) []string {
			return []string{self, "trial", "shared", name, dir, token, strconv.Itoa(i), strconv.Itoa(len(b.hosts)), strconv.FormatInt(size, 10), sharedPatience.String()}
		})
		results := make([]job.DirTrial, len(all))
		for i, o := range all {
			results[i] = result(o)
		}
		return results
	}
	said := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		b.cfg.Say("removing %s; the next signal ends mpiup at once and may leave it", own)
		close(said)
	})
	if s.Write = phase(ctx, "write"); well(s.Write) {
		s.Read = phase(ctx, "read")
	}
	if well(s.Read) {
		s.Lock = phase(ctx, "lock")
	}
	for i, r := range phase(context.WithoutCancel(ctx), "clean") {
		s.Count = max(s.Count, r.Count) // the first to remove it has read it
		if r.Error != "" && (s.Write[i].Error == "" || ctx.Err() != nil) {
			s.Left = append(s.Left, doctor.Left{Host: s.Hosts[i], Path: visible.UTF8(own), Error: r.Error})
		}
	}
	if !stop() {
		<-said
	}
	return s
}

// well is whether a phase was done, and every host sees what the others wrote.
func well(phase []job.DirTrial) bool {
	return phase != nil && !slices.ContainsFunc(phase, func(r job.DirTrial) bool { return r.Error != "" || len(r.Missing) > 0 })
}

// Bounds of what is shown of a check's output.
const (
	checkLines = 4
	checkWidth = 160 // bytes
)

func (b *bench) check(ctx context.Context, command string, limit time.Duration) doctor.Checked {
	c := doctor.Checked{Command: visible.UTF8(command)}
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
			line = visible.UTF8(line)
			lines = append(lines, strings.ToValidUTF8(line[:min(len(line), checkWidth)], ""))
		}
	}
	return lines[max(0, len(lines)-checkLines):]
}
