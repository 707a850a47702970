package agent

import (
	"fmt"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
)

// checkOpen bounds what a launcher says of itself: it is kept for the session's life, logged,
// and shown to people.
func checkOpen(o *apiv1.Open) error {
	for _, f := range []struct{ name, value string }{
		{"launcher", o.Launcher}, {"namespace", o.Namespace}, {"pod", o.Pod},
		{"version", o.Version}, {"incarnation", o.Incarnation}, {"session", o.Session},
	} {
		if len(f.value) > maxOpenField {
			return fmt.Errorf("%w: Open has a %s of %d bytes, and %d are possible", errBadFrame, f.name, len(f.value), maxOpenField)
		}
	}
	return nil
}

const maxOpenField = 253 // bytes: as long as a DNS name
