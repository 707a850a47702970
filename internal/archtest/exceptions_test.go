package archtest

// What passes the bounds of rooms_test.go, and with how much. Numbers only fall, and no line is added.

// largeRooms are packages of more lines, rounded up to a hundred.
var largeRooms = pile{
	"agent/ranks":  2800,
	"launcher":     2900,
	"launcher/run": 3900,
}

// largeWiring is cmd/mpiup where it has more than a command line needs.
var largeWiring = pile{}

// cupboards are small packages with one user.
var cupboards = []string{}

// wideTypes are types with more methods and functions that take them.
var wideTypes = pile{
	"agent/ranks.Job":        73,
	"agent/ranks.Process":    42,
	"agent/reap.Supervisor":  43,
	"agent/session.session":  52,
	"cmd/mpiup.process":      99,
	"launcher/run.Run":       83,
	"pmi/pmix.conn":          49,
	"pmi/pmix/bfrops.Reader": 44,
	"pmi/pmix/bfrops.Writer": 41,
}

// fullTypes have more fields. A Config, a command line and a record of what was found have as many as there are things to say.
var fullTypes = pile{
	"agent.Config":                   31,
	"agent/checkup.Host":             24,
	"agent/ranks.Job":                36,
	"agent/ranks.Process":            23,
	"agent/reap.Supervisor":          25,
	"agent/session.session":          45,
	"launcher.driver":                21,
	"launcher/cli.RunFlags":          32,
	"launcher/cli/mpirun/line.Line":  44,
	"launcher/cli/training.Torchrun": 26,
	"launcher/iof.Config":            26,
	"launcher/reach.Reach":           35,
	"launcher/run.Config":            30,
	"launcher/run.Run":               25,
	"launcher/run.Wishes":            24,
	"launcher/verdict.Fault":         25,
	"launcher/verdict.Verdict":       29,
	"launcher/verdict/logs.Reader":   26,
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
	"agent":               2, // a look at DNS, which is repeated; pause
	"agent/member":        3, // pause between dials; pause; a look at DNS, which is repeated
	"agent/metrics":       4, // age of what is known; pause
	"agent/port":          1, // pause
	"agent/ranks":         6, // pause; age of what is known; age of a rank
	"agent/reap":          3, // pause
	"agent/reap/guard":    1, // how long the guard kills
	"agent/stdio":         1, // a line's part is handed on
	"agent/ways":          2, // how long ports are open; how long is measured
	"cmd/mpiup":           2, // the user's second signal; pause
	"cmd/mpiup-nvml":      1, // pause
	"internal/identity":   1, // courtesy at the end
	"internal/resolve":    2, // pause
	"launcher":            3, // pause; --timeout; when to tell
	"launcher/examine":    1, // pause
	"launcher/iof":        1, // pause
	"launcher/link":       1, // pause
	"internal/exposition": 4, // scrapers; courtesy at the end
	"launcher/runmetrics": 1, // courtesy at the end
	"launcher/peers":      1, // pause
	"launcher/reach":      3, // age of what is known; pause; a turn is lent on
	"pmi/loopback":        2, // pause
}
