package pmi

import (
	"context"

	"github.com/mpiup/mpiup/pmi/wire"
)

// handler answers one message. An error ends the connection; a refusal that the client can read
// is a reply.
type handler func(*session, context.Context, *wire.Message, *reply) error

// command is one message in both spellings.
type command struct {
	v1, reply1 string // PMI-1 request and reply; "": not in PMI-1
	v2         string // PMI-2 request, whose reply is NAME-response; "": not in PMI-2
	states     state  // in which it is allowed
	handle     handler
}

// initCommand is apart because it is a PMI-1 line in both dialects.
var initCommand = command{v1: "init", reply1: "response_to_init", states: fresh | running | finalized, handle: (*session).init}

var commands = []command{
	{"", "", "fullinit", running, (*session).fullInit},
	{"finalize", "finalize_ack", "finalize", running | finalized, (*session).finalize},
	{"abort", "", "abort", fresh | running | finalized, (*session).abort},

	{"get_maxes", "maxes", "", running, (*session).maxes},
	{"get_appnum", "appnum", "", running, (*session).appNum},
	{"get_universe_size", "universe_size", "", running, (*session).universeSize},
	{"get_my_kvsname", "my_kvsname", "job-getid", running, (*session).kvsName},

	{"put", "put_result", "kvs-put", running, (*session).put},
	{"get", "get_result", "kvs-get", running, (*session).get},
	{"barrier_in", "barrier_out", "kvs-fence", running, (*session).fence},
	{"", "", "ring", running, (*session).ring},

	{"", "", "info-putnodeattr", running, (*session).putNodeAttr},
	{"", "", "info-getnodeattr", running, (*session).getNodeAttr},
	{"", "", "info-getjobattr", running, (*session).getJobAttr},

	{"publish_name", "publish_result", "name-publish", running, (*session).publish},
	{"lookup_name", "lookup_result", "name-lookup", running, (*session).lookup},
	{"unpublish_name", "unpublish_result", "name-unpublish", running, (*session).unpublish},

	{"spawn", "spawn_result", "spawn", running, (*session).spawn},
	{"", "", "job-connect", running, unsupported(1, "connecting jobs")},
	{"", "", "job-disconnect", running, unsupported(1, "connecting jobs")},
	{"singinit", "singinit_info", "", fresh | running | finalized, unsupported(-1, "starting a launcher from a singleton")},
}

// unknown answers what the table does not have.
var unknown = command{states: fresh | running | finalized, handle: unsupported(-1, "this command")}

var byName1, byName2 = index(func(c *command) string { return c.v1 }), index(func(c *command) string { return c.v2 })

func index(name func(*command) string) map[string]*command {
	m := map[string]*command{}
	for i := range commands {
		if n := name(&commands[i]); n != "" {
			m[n] = &commands[i]
		}
	}
	return m
}

func find(name string, v2 bool) *command {
	names := byName1
	if v2 {
		names = byName2
	} else if name == initCommand.v1 {
		return &initCommand
	}
	if c := names[name]; c != nil {
		return c
	}
	return &unknown
}

func (c *command) replyName(request string, v2 bool) string {
	request = request[:min(len(request), 32)] // longer than any known
	switch {
	case v2:
		return request + "-response"
	case c.reply1 != "":
		return c.reply1
	}
	return request + "_result"
}

func unsupported(rc int, what string) handler {
	return func(_ *session, _ context.Context, _ *wire.Message, r *reply) error {
		r.refuse(rc, what+" is not supported by mpiup")
		return nil
	}
}
