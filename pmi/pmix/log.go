package pmix

import (
	"context"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// log shows text with the rank's output: Open MPI 5 and later sends its error messages this way.
func (c *conn) log(_ context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	bfrops.One[uint64](r, bfrops.Time)
	data := r.Infos()
	r.Infos() // directives; every rank's text is shown, as with output
	if r.Err() != nil {
		return nil, r.Err()
	}
	shown := false
	for _, i := range data {
		stderr := i.Key == "pmix.log.stderr"
		text := i.Value.Text()
		if b, ok := i.Value.Data.([]byte); ok {
			text = string(b)
		}
		if !stderr && i.Key != "pmix.log.stdout" || text == "" {
			continue
		}
		shown = true
		if f := c.s.cfg.Hooks.OnLog; f != nil {
			f(c.id(), stderr, printable(text))
		}
	}
	if !shown && len(data) > 0 {
		return nil, errNotSupported
	}
	return nil, success
}
