package launcher

import (
	"errors"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/launcher/reach"
)

// last prints a failure's last lines, mirrors them to the termination log, and returns code.
// tail is what the rank at fault wrote last; the terminal has shown it already.
func last(r *reach.Reach, code int, lines, tail []string) int {
	for _, l := range lines {
		r.Say("%s", l)
	}
	if r.Told != nil {
		r.Told(lines, tail)
	}
	writeTermination(r, code, lines, nil, tail)
	return code
}

// End prints a failure and is its exit code.
func End(r *reach.Reach, err error) int {
	var f *reach.Failure
	if !errors.As(err, &f) {
		f = reach.Failf(job.ExitInternal, "%v", err)
	}
	return last(r, f.Code, f.Lines, nil)
}
