package archtest

// What passes the bounds of rooms_test.go, and with how much. Numbers only fall, and no line is added.

// largeRooms are packages of more lines, rounded up to a hundred.
var largeRooms = pile{
	"agent/ranks":    2800,
	"launcher":       3000,
	"launcher/reach": 2600,
	"launcher/run":   3900,
}

// largeWiring is cmd/mpiup where it has more than a command line needs.
var largeWiring = pile{"cmd/mpiup": 5200}

// cupboards are small packages with one user.
var cupboards = []string{}

// wideTypes are types with more methods and functions that take them.
var wideTypes = pile{
	"agent/ranks.Job":        74,
	"agent/ranks.Process":    44,
	"agent/reap.Supervisor":  43,
	"agent/session.session":  56,
	"cmd/mpiup.process":      102,
	"launcher.driver":        44,
	"launcher/run.Run":       88,
	"pmi/pmix.conn":          49,
	"pmi/pmix/bfrops.Reader": 44,
	"pmi/pmix/bfrops.Writer": 41,
}

// fullTypes have more fields. A Config, a command line and a record of what was found have as many as there are things to say.
var fullTypes = pile{
	"agent.Config":                  31,
	"agent/checkup.Host":            24,
	"agent/ranks.Job":               37,
	"agent/ranks.Process":           23,
	"agent/reap.Supervisor":         25,
	"agent/session.session":         45,
	"launcher.driver":               21,
	"launcher/cli.RunFlags":         47,
	"launcher/cli/mpirun/line.Line": 45,
	"launcher/cli/torchrun.Line":    27,
	"launcher/iof.Config":           26,
	"launcher/reach.Reach":          36,
	"launcher/run.Config":           30,
	"launcher/run.Run":              25,
	"launcher/run.Wishes":           24,
	"launcher/verdict.Fault":        25,
	"launcher/verdict.Verdict":      29,
	"launcher/verdict/logs.Reader":  26,
}

// flaggedTypes have more bools beside their state.
var flaggedTypes = pile{
	"agent/session.session": 8,
}

// shallow are PURE packages that reach a network or the system behind what they import.
var shallow = pile{
	"agent/outfit":              2,
	"internal/identity/keyfile": 1,
	"launcher/run":              1,
}

// onTheWall are waits by the wall's clock. Nobody is called silent for any of them.
var onTheWall = pile{
	"agent/gossip.go":                1, // a look at DNS, which is repeated
	"agent/looks.go":                 1, // pause
	"agent/member/link.go":           1, // pause between dials
	"agent/member/seeds.go":          2, // pause; a look at DNS, which is repeated
	"agent/metrics/http.go":          4, // scrapers; courtesy at the end
	"agent/metrics/watch.go":         4, // age of what is known; pause
	"agent/port/port.go":             1, // pause
	"agent/ranks/meeting.go":         3, // pause; age of what is known
	"agent/ranks/protocol.go":        1, // age of a rank
	"agent/ranks/unspoken.go":        2, // pause; age of a rank
	"agent/reap/guard/guard.go":      1, // how long the guard kills
	"agent/reap/holder.go":           1, // pause
	"agent/reap/keeper.go":           1, // pause
	"agent/reap/search.go":           1, // pause
	"agent/stdio/reader.go":          1, // a line's part is handed on
	"agent/survey/answer.go":         1, // how long ports are open
	"agent/survey/way.go":            1, // how long is measured
	"agent/checkup/trycompute.go":    1, // how long is computed
	"cmd/mpiup-nvml/xid.go":          1, // pause
	"cmd/mpiup/main.go":              1, // the user's second signal
	"cmd/mpiup/sshport.go":           1, // pause
	"internal/identity/tls.go":       1, // courtesy at the end
	"internal/resolve/dns.go":        1, // pause
	"internal/resolve/watch.go":      1, // pause
	"launcher/again.go":              1, // pause
	"launcher/examine/benchmarks.go": 1, // pause
	"launcher/gather.go":             1, // --timeout
	"launcher/iof/destination.go":    1, // pause
	"launcher/link/link.go":          1, // pause
	"launcher/metrics/http.go":       5, // scrapers; courtesy at the end
	"launcher/peers/ps.go":           1, // pause
	"launcher/reach/members.go":      1, // age of what is known
	"launcher/reach/table.go":        1, // pause
	"launcher/reach/turns.go":        1, // a turn is lent on
	"launcher/takeover.go":           1, // when to tell
	"pmi/loopback/lobby.go":          1, // pause
	"pmi/loopback/place.go":          1, // pause
}
