// Package monitoring holds the tests of what Prometheus sees of real agents and a real launcher, and of examples/monitoring:
// the names in the board and the rules are scraped, promtool takes the rules, and Prometheus answers the board's queries.
package monitoring
