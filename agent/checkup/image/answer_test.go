package image

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/agent/checkup"
	"github.com/mpiup/mpiup/internal/bounded"
	"github.com/mpiup/mpiup/test/deadmount"
)

// An image of which a directory does not answer is told of by that directory, wherever it is looked into, and one that answers by what it is.
func TestImageThatDoesNotAnswer(t *testing.T) {
	dead := deadmount.New(t)
	for _, c := range []struct {
		name   string
		change func(c *Config)
	}{
		{"PATH", func(c *Config) { c.Env = []string{"PATH=" + dead + ":/usr/bin"} }},
		{"the program", func(c *Config) { c.Program = []string{filepath.Join(dead, "train")} }},
		{"what is mpiup", func(c *Config) {
			c.Ours = func(string) bool { return bounded.OwnedDir(dead) == nil }
			c.Env = []string{"PATH=/usr/bin"}
			c.Names = []string{"sh"}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			config := inImage(nil)
			config.Files, config.Dir = bounded.Tree("/"), "/"
			c.change(&config)
			_, list := CheckAnswering(config, time.Second)
			if len(list) != 1 || list[0].Verdict != checkup.Fail || list[0].Fix == "" || !strings.Contains(list[0].Text, "does not answer") {
				t.Fatalf("%+v", list)
			}
			if c.name != "what is mpiup" && !strings.Contains(list[0].Text, dead) {
				t.Errorf("another one is named: %+v", list)
			}
		})
	}
	want, wanted := Check(inImage(map[string]string{"usr/bin/mpirun": "mpiup"}))
	got, list := CheckAnswering(inImage(map[string]string{"usr/bin/mpirun": "mpiup"}), time.Minute)
	if len(list) != len(wanted) || got.Names["mpirun"] != want.Names["mpirun"] {
		t.Errorf("one that answers: %+v %+v, want %+v %+v", got, list, want, wanted)
	}
}
