package run

import "testing"

// What a Python program prints is not held back: agents see to that.
func TestPythonIsUnbuffered(t *testing.T) {
	for arg, want := range map[string]bool{
		"python": true, "/usr/bin/python3": true, "python3.13t": true, "train.py": true, "/app/run.py": true, "torchrun": true,
		"./solver": false, "python-wrapper.sh": false, "pythonic": false, "bash": false, "notpython3": false, "": false,
	} {
		if got := isPython(arg); got != want {
			t.Errorf("%q: %t", arg, got)
		}
	}
}
