package pmi

import (
	"context"
	"strconv"

	"github.com/mpiup/mpiup/internal/job"
)

// spawnJob is MPI_Comm_spawn and MPI_Comm_spawn_multiple. The request has been read to its end, so
// the connection stays in step when it is refused; the program then gets MPI_ERR_SPAWN. Error
// codes of processes are left out, since clients expect exactly one per process asked for or none.
func spawnJob(ctx context.Context, s *session, m *Message, r *reply) error {
	if s.srv.job.Spawn == nil {
		return unsupported(-1, "starting processes from a running job (MPI_Comm_spawn)")(ctx, s, m, r)
	}
	req, err := spawnRequest(m, r.v2)
	if err == nil {
		req.Parent = s.rank
		err = req.Check()
	}
	job := 0
	if err == nil {
		job, err = s.srv.job.Spawn(ctx, req)
	}
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		r.refuse(-1, err.Error())
	default:
		r.ok()
		if r.v2 { // Slurm's libpmi2 reads jobid, for job-connect only
			r.add("jobid", strconv.Itoa(job))
			r.add("nerrs", "0")
		}
	}
	return nil
}

// spawnRequest reads what a rank asks for. Everything but counts is as it came; Check is the
// caller's. The order of keys inside a program is free: clients of one version differ.
func spawnRequest(m *Message, v2 bool) (job.Spawn, error) {
	w, parts := &spawnWords1, programs1(m.Pairs)
	if v2 {
		w, parts = &spawnWords2, programs2(m.Pairs)
	}
	var req job.Spawn
	head := fieldsOf(parts[0])
	if v2 {
		parts = parts[1:]
	}
	n, err := head.count(w.programs, job.MaxSpawnPrograms)
	if err != nil {
		return req, err
	}
	if n != len(parts) {
		return req, malformed("%d programs where %s says %d", len(parts), w.programs, n)
	}
	pairs, err := head.pairs(w.preputs, w.preputKey, w.preputValue, job.MaxPreput)
	if err != nil {
		return req, err
	}
	for _, p := range pairs {
		if why := refusedPair(p.Key, p.Value, v2); why != "" {
			return req, malformed("a key for the new ranks: %s", why)
		}
		req.Preput = append(req.Preput, job.Pair{Key: p.Key, Value: []byte(p.Value)})
	}
	for _, part := range parts {
		p, err := w.program(fieldsOf(part))
		if err != nil {
			return req, err
		}
		req.Programs = append(req.Programs, p)
	}
	return req, nil
}

// programs1 cuts a PMI-1 request where each block ends.
func programs1(pairs []Pair) (parts [][]Pair) {
	start := 0
	for i, p := range pairs {
		if p.Key == "endcmd" {
			parts = append(parts, pairs[start:i])
			start = i + 1
		}
	}
	if start < len(pairs) || parts == nil {
		parts = append(parts, pairs[start:])
	}
	return parts
}

// programs2 cuts a PMI-2 request into what comes before the first program, and the programs.
func programs2(pairs []Pair) (parts [][]Pair) {
	start := 0
	for i, p := range pairs {
		if p.Key == spawnWords2.name {
			parts = append(parts, pairs[start:i])
			start = i
		}
	}
	return append(parts, pairs[start:])
}
