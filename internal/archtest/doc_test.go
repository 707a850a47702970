// Package archtest holds the tests that keep the architecture true: which package may import
// which, where dangerous or heavy dependencies may stand, and that the lists in docs/ are
// complete. It counts nothing that better code might have more of.
//
// A package imports packages of lower levels, and those below its own directory. levels_test.go is
// the table, rules_test.go the single rules; each carries its reason, which the failing test prints.
// Tests and everything under test/ are free to import what they like.
//
// The package has no code but tests, needs the go command, and looks at whole packages as
// "go list" describes them: build tags other than this machine's are not seen.
package archtest
