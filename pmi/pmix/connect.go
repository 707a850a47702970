package pmix

import (
	"context"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
)

// errQuiet is no status of PMIx: Open MPI 4 takes it for its own OPAL_ERR_SILENT (opal/constants.h),
// of which it says nothing.
const errQuiet status = -43

// connect is a barrier of the listed processes, in any order on each side. Each client is told
// about the jobs of the others: that is all the difference that being connected makes.
func (c *conn) connect(ctx context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	all, err := c.barrier(ctx, r, false)
	if err != nil {
		return nil, err
	}
	w := c.writer()
	w.Status(int(success))
	for _, m := range all {
		if m.ns == c.ns {
			continue
		}
		about, err := m.ns.about(c)
		if err != nil {
			return nil, err
		}
		w.Group(bfrops.ByteObject, about)
	}
	return w, nil
}

func (c *conn) disconnect(ctx context.Context, r *bfrops.Reader) (*bfrops.Writer, error) {
	_, err := c.barrier(ctx, r, false)
	if err != nil {
		return nil, err
	}
	return nil, success
}

// about is the job's name and what ranks of other jobs are told of it.
func (ns *namespace) about(c *conn) ([]byte, error) {
	groups, err := ns.data.packed(jobDataKind{c.dialect, c.desc, true})
	if err != nil {
		return nil, err
	}
	w := c.section()
	w.Group(bfrops.String, ns.Namespace)
	w.Raw(groups)
	return w.Bytes()
}
