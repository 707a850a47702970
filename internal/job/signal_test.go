package job

import "testing"

func TestSignalName(t *testing.T) {
	if n := SignalName(9); n != "SIGKILL" {
		t.Error(n)
	}
	if n := SignalName(40); n != "signal 40" {
		t.Error(n)
	}
}

func TestParseEndSignal(t *testing.T) {
	for _, c := range []struct {
		text string
		want int
	}{{"TERM", SIGTERM}, {"SIGUSR1", SIGUSR1}, {"usr2", SIGUSR2}, {"10", SIGUSR1}, {"24", SIGXCPU},
		{"", 0}, {"KILL", 0}, {"9", 0}, {"SIGSTOP", 0}, {"0", 0}, {"-15", 0}, {"SEGV", 0}, {"SIGSIGTERM", 0}, {"40", 0}} {
		if got, err := ParseEndSignal(c.text); got != c.want || (err == nil) != (c.want != 0) {
			t.Errorf("%q: %d, %v; want %d", c.text, got, err, c.want)
		}
	}
}
