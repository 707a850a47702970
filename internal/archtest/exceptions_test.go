package archtest

// What passes the bounds of rooms_test.go, and with how much. Numbers only fall, and no line is added.

// largeRooms are packages of more lines, rounded up to a hundred.
var largeRooms = pile{
	"agent/ranks":    2800,
	"launcher":       3200,
	"launcher/reach": 2600,
	"launcher/run":   3900,
}

// largeWiring is cmd/mpiup where it has more than a command line needs.
var largeWiring = pile{"cmd/mpiup": 5300}

// cupboards are small packages with one user.
var cupboards = []string{
	"docs",
	"launcher/ps",
}

// wideTypes are types with more methods and functions that take them.
var wideTypes = pile{
	"agent/ranks.Job":        74,
	"agent/ranks.Process":    45,
	"agent/reap.Supervisor":  43,
	"agent/session.session":  56,
	"cmd/mpiup.process":      103,
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
	"launcher/cli.RunFlags":         49,
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
