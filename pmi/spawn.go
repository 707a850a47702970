package pmi

import (
	"context"

	"github.com/mpiup/mpiup/pmi/message"
)

// spawn is MPI_Comm_spawn. The request has been read to its end, so the connection stays in step;
// the program gets MPI_ERR_SPAWN. Error codes are left out, since clients expect exactly one per
// process asked for or none.
func (s *session) spawn(ctx context.Context, m *message.Message, r *reply) error {
	return unsupported(-1, "starting processes from a running job (MPI_Comm_spawn)")(s, ctx, m, r)
}
