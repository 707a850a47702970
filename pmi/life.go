package pmi

import (
	"context"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/internal/visible"
)

// initialize begins, or begins again, in the version that the client names. Clients ask for 1.1, and use
// group barriers when the answer is 1.2 (MPICH 5, src/pmi/src/pmi_v1.c). Where it stands in the other version it is refused and
// nothing changes.
func initialize(_ context.Context, s *session, m *Message, r *reply) error {
	v, _ := m.Int("pmi_version")
	sub := 2
	if s.srv.job.PlainBarriers {
		sub = 1
	}
	switch {
	case v != 1 && v != 2:
		r.add("pmi_version", "1")
		r.add("pmi_subversion", "1")
		r.refuse(-1, "PMI versions 1 and 2 are served")
		return nil
	case v == 2:
		sub = 0
	}
	r.addInt("pmi_version", v)
	r.addInt("pmi_subversion", sub)
	who := s.seconds.speaker()
	before, ok := s.srv.begin(s, who)
	if !ok {
		s.seconds.refuse(who, before)
		r.refuse(-1, alreadyIn(s.rank, before))
		return nil
	}
	if s.state == running && v != version(s.v2) {
		r.refuse(-1, "already initialized with the other PMI version")
		return nil
	}
	s.seconds.admit(who)
	r.ok()
	s.v2 = v == 2
	again := s.state == running
	s.state = running
	if !again {
		s.srv.job.Space.RankBack(s.rank)
	}
	if f := s.srv.job.Hooks.OnInit; f != nil && (!again || who != before) {
		f(s.rank, who)
	}
	return nil
}

// fullInit gives the union of what old clients (versions, booleans) and new ones (rank, size,
// appnum, numbers) read. The rank is the connection's, whatever the request says.
func fullInit(_ context.Context, s *session, _ *Message, r *reply) error {
	r.ok()
	r.add("pmi-version", "2")
	r.add("pmi-subversion", "0")
	r.addInt("rank", s.rank)
	r.addInt("size", s.srv.job.Space.Size)
	r.addInt("appnum", s.srv.job.AppNum(s.rank))
	r.add("debugged", "FALSE")
	r.add("pmiverbose", "FALSE")
	if s.srv.job.Spawned { // its presence is what clients look at
		r.add("spawner-jobid", "spawner")
	}
	return nil
}

// finalize leaves the connection open: MPI sessions of MPICH 4.1 and later send init again on it.
func finalize(_ context.Context, s *session, _ *Message, r *reply) error {
	r.ok()
	if s.state == running {
		s.state = finalized
		s.srv.finish(s)
		if f := s.srv.job.Hooks.OnFinalize; f != nil {
			f(s.rank)
		}
	}
	return nil
}

// abort is MPI_Abort. Clients spell code and text in several ways, put blanks into the text, and
// PMI-2 clients up to MPICH 4.0 give no code, which counts as 1.
func abort(_ context.Context, s *session, m *Message, r *reply) error {
	r.silent = true
	code, text := 1, ""
	for _, key := range []string{"exitcode", "exit_code"} {
		if n, ok := leadingInt(m.Value(key)); ok {
			code = n
			break
		}
	}
	for _, key := range []string{"message", "error_msg", "msg"} {
		if v, ok := m.Get(key); ok {
			text = v
			if m.Raw != "" {
				text = restOf(m.Raw, key)
			}
			break
		}
	}
	s.state = aborted
	s.srv.job.Space.RankGone(s.rank, "has called MPI_Abort")
	if f := s.srv.job.Hooks.OnAbort; f != nil {
		f(s.rank, code, printable(text))
	}
	return nil
}

// restOf is everything behind key= in a line, up to the code if that comes later: the text may
// hold "=" too.
func restOf(line, key string) string {
	_, text, _ := strings.Cut(line, " "+key+"=")
	for _, code := range []string{" exitcode=", " exit_code="} {
		if i := strings.LastIndex(text, code); i >= 0 {
			text = text[:i]
		}
	}
	return Unescape(text)
}

// leadingInt reads a number and leaves out what stands behind it.
func leadingInt(s string) (int, bool) {
	end := 0
	for end < len(s) && (s[end] >= '0' && s[end] <= '9' || end == 0 && s[end] == '-') {
		end++
	}
	n, err := strconv.Atoi(s[:end])
	return n, err == nil
}

// printable bounds foreign text for people.
func printable(s string) string {
	return visible.Line(strings.TrimSpace(strings.ToValidUTF8(s[:min(len(s), 1024)], "?")))
}
