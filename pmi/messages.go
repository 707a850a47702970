package pmi

// initCommand is apart because both dialects write it alike.
var initCommand = command{v1: initName, reply1: "response_to_init", states: fresh | running | finalized, handle: initialize, last: true}

var commands = []command{
	{"", "", "fullinit", running, fullInit, false},
	{"finalize", "finalize_ack", "finalize", running | finalized, finalize, true},
	{"abort", "", "abort", fresh | running | finalized, abort, true},

	{"get_maxes", "maxes", "", running, maxes, false},
	{"get_appnum", "appnum", "", running, appNum, false},
	{"get_universe_size", "universe_size", "", running, universeSize, false},
	{"get_my_kvsname", "my_kvsname", "job-getid", running, kvsName, false},

	{"put", "put_result", "kvs-put", running, put, false},
	{"get", "get_result", "kvs-get", running, get, false},
	{"barrier_in", "barrier_out", "kvs-fence", running, fence, false},
	{"", "", "ring", running, exchangeRing, false},

	{"", "", "info-putnodeattr", running, putNodeAttr, false},
	{"", "", "info-getnodeattr", running, getNodeAttr, false},
	{"", "", "info-getjobattr", running, getJobAttr, false},

	{"publish_name", "publish_result", "name-publish", running, publish, false},
	{"lookup_name", "lookup_result", "name-lookup", running, lookup, false},
	{"unpublish_name", "unpublish_result", "name-unpublish", running, unpublish, false},

	{"spawn", "spawn_result", "spawn", running, spawnJob, false},
	{"", "", "job-connect", running, unsupported(1, "connecting jobs"), false},
	{"", "", "job-disconnect", running, unsupported(1, "connecting jobs"), false},
	{"singinit", "singinit_info", "", fresh | running | finalized, unsupported(-1, "starting a launcher from a singleton"), false},
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
