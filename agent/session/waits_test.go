package session

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/agent/look"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/identity"
	"github.com/mpiup/mpiup/internal/idset"
)

// A host answers who of its ranks has not spoken; one whose library gets nothing from mpiup may well never.
func TestAskedWhoWaits(t *testing.T) {
	for _, tt := range []struct {
		name string
		pmi  apiv1.Pmi
		want string
	}{
		{"silent", apiv1.Pmi_PMI_FD, "4-5"},
		{"not spoken to", apiv1.Pmi_PMI_NONE, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := newClient(t, newTable(t), '1', "life-1")
			c.dial(false)
			first := jobLaunch(0, 0, 4, "exec sleep 1000")
			first.Job.Pmi = apiv1.Pmi_PMI_NONE
			c.start(first)
			l := jobLaunch(1, 4, 2, "exec sleep 1000")
			l.Job.Pmi = tt.pmi
			c.start(l)
			c.times(6, started)
			c.send((&apiv1.AskWaits{Id: 5}).Frame())
			all := c.until(func(f *apiv1.Frame) bool { return f.GetWaits() != nil })
			w := all[len(all)-1].GetWaits()
			if w.Id != 5 || w.Silent != tt.want || len(w.Waits) > 0 {
				t.Errorf("answered %v, want the silent %q", w, tt.want)
			}
		})
	}
}

// A host answers where those of its ranks are that are asked for and run, a bounded number of them, to a launcher that may look.
func TestAskedWhereRanksAre(t *testing.T) {
	for _, tt := range []struct{ name, rules, wanted, told, note string }{
		{"some, and such as are not here", "", "1-2,7,4000", "1-2,7", ""},
		{"all of many", "", "0-1048575", "0-15", ""},
		{"who may not look", "allow run launcher", "1", "", `the agent's policy refuses look to launchers (no line of /etc/mpiup/policy allows it)`},
		{"who may", "allow run,look launcher", "1", "1", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			table, _ := tableOf(t, func(c *Config) {
				if tt.rules != "" {
					c.Policy = rules(t, tt.rules)
				}
				c.Stacks = func(_ context.Context, targets []look.Target) (found []look.Stack, notes []string) {
					for _, t := range targets {
						found = append(found, look.Stack{Means: "gdb", Frames: []string{fmt.Sprint(t.PID)}})
					}
					return found, nil
				}
			})
			c := newClient(t, table, '1', "life-1")
			c.peer, c.name = callerAs("l", identity.RoleLauncher), "l"
			c.dial(false)
			c.start(jobLaunch(0, 0, 20, "exec sleep 1000"))
			pids := map[uint32]string{}
			for _, f := range c.times(20, started) {
				if s := f.GetStarted(); s != nil {
					pids[s.Rank] = fmt.Sprint(s.Pid)
				}
			}
			c.send((&apiv1.AskWaits{Id: 5, Stacks: tt.wanted}).Frame())
			all := c.until(func(f *apiv1.Frame) bool { return f.GetWaits() != nil })
			w := all[len(all)-1].GetWaits()
			var told []string
			for _, s := range w.Stacks {
				if told = append(told, fmt.Sprint(s.Id)); s.Means != "gdb" || !slices.Equal(s.Frames, []string{pids[s.Id]}) || fmt.Sprint(s.Pid) != pids[s.Id] {
					t.Errorf("%v, and it is process %s", s, pids[s.Id])
				}
			}
			set, _ := idset.Parse(strings.Join(told, ","))
			if notes := strings.Join(w.Notes, ", "); w.Id != 5 || set.String() != tt.told || len(told) != set.Len() || !strings.HasPrefix(notes, tt.note) || (notes == "") != (tt.note == "") {
				t.Errorf("answered %v", w)
			}
		})
	}
}

// Another host's rank has missed a file: whether it is here is answered, and a question for no path is no launcher's.
func TestAskedForFiles(t *testing.T) {
	c := newClient(t, newTable(t), '1', "life-1")
	c.dial(false)
	c.launch(1, 1, "sleep 1000")
	c.times(1, started)
	here := filepath.Join(t.TempDir(), "train.bin")
	if err := os.WriteFile(here, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.send((&apiv1.AskWaits{Id: 1 << 62, Files: []string{here, here + ".not", filepath.Join(here, "below")}}).Frame())
	all := c.until(func(f *apiv1.Frame) bool { return f.GetWaits() != nil })
	w := all[len(all)-1].GetWaits()
	want := []apiv1.Presence{apiv1.Presence_PRESENCE_THERE, apiv1.Presence_PRESENCE_ABSENT, apiv1.Presence_PRESENCE_ABSENT}
	if w.Id != 1<<62 || !slices.Equal(w.Files, want) {
		t.Errorf("answered %v", w)
	}
	for _, paths := range [][]string{{"train.bin"}, {""}, {"/a\x00b"}, {"/" + strings.Repeat("x", 5000)}, {"/1", "/2", "/3", "/4", "/5"}} {
		if err := c.session().deliver((&apiv1.AskWaits{Id: 5, Files: paths}).Frame()); err == nil {
			t.Errorf("%.40q was taken", paths)
		}
	}
}

// A question for what no process can be is no launcher's.
func TestAskedWhereNobodyIs(t *testing.T) {
	for _, wanted := range []string{"x", "-1", "1048576", "0-99999999999999999999"} {
		c := newClient(t, newTable(t), '1', "life-1")
		c.dial(false)
		c.launch(1, 1, "sleep 1000")
		c.times(1, started)
		if err := c.session().deliver((&apiv1.AskWaits{Id: 5, Stacks: wanted}).Frame()); err == nil {
			t.Errorf("%s was taken", wanted)
		}
	}
}
