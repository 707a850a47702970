package pmi

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/pmi/kvs"
)

// portMax keeps the answer to a lookup within wire.MaxReply. Port names of MPICH are shorter
// (MPI_MAX_PORT_NAME is 256).
const portMax = 900

func publish(ctx context.Context, s *session, m *Message, r *reply) error {
	name, port := service(m), m.Value("port")
	switch {
	case name == "" || port == "":
		return answerName(ctx, r, errors.New("a service name and a port are needed"))
	case len(value1(port)) > portMax:
		return answerName(ctx, r, fmt.Errorf("a port of %d bytes is too long", len(port)))
	case strings.ContainsAny(port, ";\n"):
		return answerName(ctx, r, errors.New("a semicolon or line end cannot be published"))
	}
	return answerName(ctx, r, s.srv.job.Space.Names().Publish(ctx, name, []byte(port)))
}

func unpublish(ctx context.Context, s *session, m *Message, r *reply) error {
	name := service(m)
	if name == "" {
		return answerName(ctx, r, kvs.ErrNotFound)
	}
	return answerName(ctx, r, s.srv.job.Space.Names().Unpublish(ctx, name))
}

func lookup(ctx context.Context, s *session, m *Message, r *reply) error {
	port, err := []byte(nil), kvs.ErrNotFound
	if name := service(m); name != "" {
		port, err = s.srv.job.Space.Names().Lookup(ctx, name)
	}
	if err != nil && r.v2 && errors.Is(err, kvs.ErrNotFound) {
		answerGet(r, "", "", false)
		return nil
	}
	if err != nil {
		return answerName(ctx, r, err)
	}
	r.ok()
	if r.v2 { // MPICH reads port, Slurm's libpmi2 value
		r.add("found", "TRUE")
		r.add("value", string(port))
		r.add("port", string(port))
	} else {
		r.add("info", "ok")
		r.add("port", value1(string(port)))
	}
	return nil
}

// service is the name under its PMI-1 or PMI-2 key.
func service(m *Message) string {
	if v, ok := m.Get("service"); ok {
		return v
	}
	return m.Value("name")
}

// answerName answers with the outcome. Whatever is wrong with names is the program's to handle, as
// MPI_ERR_NAME or MPI_ERR_SERVICE, unless the job itself is over.
func answerName(ctx context.Context, r *reply, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	text := ""
	switch {
	case err == nil:
		r.ok()
		if !r.v2 {
			r.add("info", "ok")
			r.add("msg", "success")
		}
		return nil
	case errors.Is(err, kvs.ErrExists):
		text = "key_already_present"
	case errors.Is(err, kvs.ErrNotFound):
		text = "service_not_found"
	default:
		text = err.Error()
	}
	if !r.v2 {
		r.add("info", "fail")
	}
	r.refuse(1, text)
	return nil
}
