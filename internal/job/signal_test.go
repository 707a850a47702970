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
