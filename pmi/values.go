package pmi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/pmi/kvs"
)

// What PMI-1 clients are told to keep to. The four numbers of a put, 64+64+866 and 30 for the
// rest of the line, make 1024, the line of MPICH up to 4.0. The length of values must be even:
// put_ex_segs and get_ex_segs of MPICH src/util/mpir_pmi.c round it differently.
const (
	kvsNameMax = 64
	keyMax     = 64
	valueMax   = 866

	valueMax2 = 1024         // PMI2_MAX_VALLEN
	accepted1 = 2 * valueMax // a value in which every character is escaped
)

func maxes(_ context.Context, s *session, _ *Message, r *reply) error {
	r.ok()
	r.addInt("kvsname_max", kvsNameMax)
	r.addInt("keylen_max", keyMax)
	r.addInt("vallen_max", valueMax)
	return nil
}

func appNum(_ context.Context, s *session, _ *Message, r *reply) error {
	r.ok()
	r.addInt("appnum", s.srv.job.AppNum(s.rank))
	return nil
}

// universeSize says -1 when nobody knows.
func universeSize(_ context.Context, s *session, _ *Message, r *reply) error {
	r.ok()
	r.addInt("size", cmp.Or(max(s.srv.job.Universe, 0), -1))
	return nil
}

func kvsName(_ context.Context, s *session, _ *Message, r *reply) error {
	r.ok()
	if r.v2 {
		r.add("jobid", s.srv.job.Space.KVSName)
	} else {
		r.add("kvsname", s.srv.job.Space.KVSName)
	}
	return nil
}

func put(_ context.Context, s *session, m *Message, r *reply) error {
	key, value, why := pair(m, r.v2)
	if why == "" && !ownSpace(s, m) {
		why = "there is no such key-value space"
	}
	if why != "" {
		r.refuse(-1, why)
		return nil
	}
	return answerPut(s.srv.job.Space.Put(s.rank, key, []byte(value)), r)
}

// answerPut turns a bound that was passed into a refusal.
func answerPut(err error, r *reply) error {
	var limit *kvs.LimitError
	switch {
	case err == nil:
		r.ok()
	case errors.As(err, &limit):
		r.refuse(-1, limit.Error())
	default:
		return err
	}
	return nil
}

// pair reads the key and value of a request that stores one, and why it is refused.
func pair(m *Message, v2 bool) (key, value, why string) {
	key, value = m.Value("key"), m.Value("value")
	return key, value, refusedPair(key, value, v2)
}

// refusedPair says why a key and its value cannot be stored; "": they can.
func refusedPair(key, value string, v2 bool) (why string) {
	limit := accepted1
	if v2 {
		limit = valueMax2
	}
	switch {
	case key == "":
		why = "a key is missing"
	case strings.HasPrefix(key, "PMI_"):
		why = "keys that begin with PMI_ are reserved"
	case strings.ContainsAny(key, ";\n") || strings.ContainsAny(value, ";\n") && v2:
		why = "a semicolon or line end cannot be stored"
	case value == "":
		why = "a value is missing" // newer clients cannot read an empty one
	case len(value) > limit:
		why = fmt.Sprintf("a value of %d bytes is too long", len(value))
	}
	return why
}

// ownSpace: a job has one key-value space. Clients may leave its name out.
func ownSpace(s *session, m *Message) bool {
	for _, key := range []string{"kvsname", "jobid"} {
		if name, ok := m.Get(key); ok && name != "" && name != s.srv.job.Space.KVSName {
			return false
		}
	}
	return true
}

// probeKey is asked for by every rank after every fence, to make sure that the fence is over
// (MPICH src/util/mpir_pmi2.inc); nobody puts it.
const probeKey = "-NONEXIST-KEY"

func get(ctx context.Context, s *session, m *Message, r *reply) error {
	key := m.Value("key")
	value, found := reservedValue(s, key)
	if !found && key != "" && key != probeKey && !strings.HasPrefix(key, "PMI_") && ownSpace(s, m) {
		owner := kvs.AnyOwner
		if n, ok := m.Int("srcid"); ok && n >= 0 && n < s.srv.job.Space.Size {
			owner = n
		}
		v, ok, err := s.srv.job.Space.Get(ctx, owner, key)
		if err == nil && !ok && owner != kvs.AnyOwner { // the source is a hint
			v, ok, err = s.srv.job.Space.Get(ctx, kvs.AnyOwner, key)
		}
		if err != nil {
			return err
		}
		value, found = string(v), ok
	}
	answerGet(r, key, value, found)
	return nil
}

// answerGet answers a question for a value. A missing one is rc=1 with a value to print in PMI-1,
// where old clients look at rc only, and rc=0 without any in PMI-2.
func answerGet(r *reply, key, value string, found bool) {
	switch {
	case found:
		r.ok()
		r.add("found", "TRUE")
		if !r.v2 {
			value = value1(value)
		}
		r.add("value", value)
	case r.v2:
		r.add("found", "FALSE")
		r.ok()
	default:
		r.add("rc", "1")
		r.add("msg", "key_"+plain(key[:min(len(key), keyMax)], '_')+"_not_found")
		r.add("value", "unknown")
	}
}

// reservedValue is what the server itself knows for any job.
func reservedValue(s *session, key string) (value string, found bool) {
	job := &s.srv.job
	switch key {
	case "PMI_process_mapping":
		return job.Mapping, job.Mapping != ""
	case "PMI_hwloc_xmlfile":
		if job.HwlocXML == "" {
			return "unavailable", true
		}
		return job.HwlocXML, true
	}
	return "", false
}

func getJobAttr(_ context.Context, s *session, m *Message, r *reply) error {
	key := m.Value("key")
	value, found := reservedValue(s, key)
	if key == "universeSize" && s.srv.job.Universe > 0 {
		value, found = strconv.Itoa(s.srv.job.Universe), true
	}
	answerGet(r, key, value, found)
	return nil
}

func putNodeAttr(_ context.Context, s *session, m *Message, r *reply) error {
	key, value, why := pair(m, true)
	if why != "" {
		r.refuse(-1, why)
		return nil
	}
	return answerPut(s.srv.job.Space.PutAttr(s.rank, key, []byte(value)), r)
}

func getNodeAttr(ctx context.Context, s *session, m *Message, r *reply) error {
	key := m.Value("key")
	value, found := reservedValue(s, key)
	if !found && key != "" && !strings.HasPrefix(key, "PMI_") {
		wait := strings.EqualFold(m.Value("wait"), "TRUE")
		v, ok, err := s.srv.job.Space.Attr(ctx, s.rank, key, wait)
		if err != nil {
			return err
		}
		value, found = string(v), ok
	}
	answerGet(r, key, value, found)
	return nil
}
