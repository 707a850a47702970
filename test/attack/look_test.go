package attack

import (
	"strings"
	"testing"
)

// What runs on a host is for those to know who may look there, by whichever call they ask.
func TestWhatRunsIsForThoseWhoMayLook(t *testing.T) {
	s := newSite(t)
	for _, tt := range []struct {
		name, asks string
		agent      []string
		told       bool
	}{
		{"a launcher", "mpiup://g/launcher/l1", nil, true},
		{"a worker", "mpiup://g/agent/x", nil, false},
		{"a worker that may start ranks", "mpiup://g/agent/x", []string{"--allow", "run:agent,run"}, false},
		{"a launcher that may not look", "mpiup://g/launcher/l1", []string{"--deny", "look"}, false},
		{"the launcher whose ranks they are, and may not look", "mpiup://g/launcher/l0", []string{"--deny", "look"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			at := startAgent(t, nil, append([]string{"--http", "off", "--tls-dir", s.files("mpiup://g/agent/w")}, tt.agent...)...)
			// The rank asks, so it runs while it is asked about.
			e := mpiup(t, "run", "--tls-dir", s.files("mpiup://g/launcher/l0"), "--host", at.Addr+":1", "-n", "1", "--",
				bin, "peers", "--json", "--host", at.Addr, "--tls-dir", s.files(tt.asks))
			if told := strings.Contains(e.Stdout, `"program": "mpiup"`); e.Code != 0 || told != tt.told || !strings.Contains(e.Stdout, `"alive"`) {
				t.Errorf("it ends with %d, and is told of the program: %v\n%s%s", e.Code, told, e.Stdout, e.Stderr)
			}
		})
	}
}
