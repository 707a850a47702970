// Package badinput gives the real binary what it should not get: wrong command lines, hosts
// that are something else, certificates that do not fit, and clients and ranks that mean harm.
// Each case is one row of a table: what is given, the exit code of docs/exit-codes.md, and what
// the message must say. Agents must not notice: goroutines, descriptors and sessions are counted
// before and after.
//
// Everything runs on loopback addresses that each test run picks for itself, so it needs neither
// root nor namespaces, and any number of runs go side by side. Addresses that swallow packets
// are in test/netns and test/kube.
package badinput
