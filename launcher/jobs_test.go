package launcher

import "testing"

func TestNamespacesAreHardToGuess(t *testing.T) {
	a, b := newNamespace(), newNamespace()
	if a == b || len(a) != len("mpiup-")+32 {
		t.Error(a, b)
	}
}
