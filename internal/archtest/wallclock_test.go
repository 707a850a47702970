package archtest

// onTheWall are waits by the wall's clock. Nobody is called silent for any of them.
var onTheWall = map[string]int{
	"agent":               2, // a look at DNS, which is repeated; pause
	"agent/member":        3, // pause between dials; pause; a look at DNS, which is repeated
	"agent/metrics":       4, // age of what is known; pause
	"agent/port":          1, // pause
	"agent/ranks":         9, // pause; age of what is known; age of a rank; how often a rank is looked at that may be alone
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
	"internal/scrape":     4, // scrapers; courtesy at the end
	"launcher/runmetrics": 1, // courtesy at the end
	"launcher/peers":      1, // pause
	"launcher/rendezvous": 2, // pause, twice
	"launcher/reach":      3, // age of what is known; pause; a turn is lent on
	"pmi/loopback":        2, // pause
}
