// Package elf makes the heads of programs that no kernel here starts, for tests of what is said then.
package elf

import "runtime"

// machines are the ELF numbers of the architectures that mpiup is built for.
var machines = map[string]byte{"amd64": 62, "arm64": 183}

// Foreign is the head of a program for another architecture than this one's: arm64, or amd64 on arm64.
func Foreign() string {
	if runtime.GOARCH == "arm64" {
		return string(head(64, machines["amd64"]))
	}
	return string(head(64, machines["arm64"]))
}

// WithLoader is the head of a program of this architecture that wants a dynamic loader: one program header, PT_INTERP.
func WithLoader(loader string) string {
	h := head(120, machines[runtime.GOARCH])
	h[20] = 1
	h[32], h[52], h[54], h[56] = 64, 64, 56, 1
	h[64], h[72], h[96] = 3, 120, byte(len(loader)+1)
	return string(h) + loader + "\x00"
}

// head is n bytes that begin as an executable of 64 bits, little-endian, does.
func head(n int, machine byte) []byte {
	h := make([]byte, n)
	copy(h, "\x7fELF\x02\x01\x01")
	h[16], h[18] = 2, machine
	return h
}
