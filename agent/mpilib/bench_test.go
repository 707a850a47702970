package mpilib

import (
	"os"
	"testing"
)

// BenchmarkLook is a look at a program of this machine (LOOK_AT), from nothing and from memory.
func BenchmarkLook(b *testing.B) {
	program := os.Getenv("LOOK_AT")
	if program == "" {
		program = "/bin/true"
	}
	q := Query{Argv: []string{program}, Env: os.Environ(), Dir: "/"}
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			NewMemory(os.DirFS("/")).Look(q)
		}
	})
	b.Run("remembered", func(b *testing.B) {
		m := NewMemory(os.DirFS("/"))
		for b.Loop() {
			m.Look(q)
		}
	})
}
