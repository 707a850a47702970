package rendezvous

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// How long the first bytes are by which a caller is known.
const opening = 16

// torchMagic is what a client of torch's TCPStore sends behind the number of its first request (validationMagicNumber,
// torch/csrc/distributed/c10d/TCPStoreBackend.hpp), in the byte order of its machine, which is this one's.
const torchMagic uint32 = 0x3C85F7CE

// caller is who a connection's first bytes are of.
type caller int

const (
	unknown caller = iota // more bytes are needed
	ours                  // mpiup's torchrun, without TLS
	overTLS               // a TLS client
	torch                 // torch's own torchrun, or one of its ranks
	web                   // an HTTP client, as a probe is
	other
)

// callerOf tells by the first bytes of a connection who it is from. ended: no more will come.
func callerOf(first []byte, ended bool) caller {
	switch {
	case len(first) == 0 && !ended:
		return unknown
	case len(first) == 0:
		return other
	case first[0] == 0x16: // a TLS handshake record (RFC 8446, 5.1)
		return overTLS
	case strings.HasPrefix(greeting, string(first[:min(len(first), len(greeting))])):
		if len(first) < min(len(greeting), opening) {
			return more(ended)
		}
		return ours
	}
	for _, method := range []string{"GET ", "HEAD ", "POST ", "PUT ", "OPTIONS ", "PRI "} {
		if bytes.HasPrefix(first, []byte(method)) {
			return web
		}
	}
	if isTorch(first) {
		return torch
	}
	if len(first) < opening {
		return more(ended)
	}
	return other
}

func more(ended bool) caller {
	if ended {
		return other
	}
	return unknown
}

// isTorch says that a connection begins as a client of torch's store: since torch 2.1 with its magic number (VALIDATE), before
// with a request, its kind in one byte, and the length and the text of a key that begins with "/" (TCPStore.cpp, keyPrefix_).
func isTorch(first []byte) bool {
	const validate, kinds = 0, 16
	if len(first) >= 5 && first[0] == validate && binary.NativeEndian.Uint32(first[1:]) == torchMagic {
		return true
	}
	const longest = 64 << 10 // of a key, as far as any is
	return len(first) >= 10 && first[0] < kinds && binary.NativeEndian.Uint64(first[1:]) < longest && first[9] == '/'
}

// torchQuestions ask a store for the number of its keys, as torch before 2.1 and since does (GETNUMKEYS): it answers the one with
// eight bytes. Of the other a new store hangs up; an old one waits for the rest of it, and for nobody else meanwhile, so
// the old question comes first.
func torchQuestions() [][]byte {
	const validate, numKeys, oldNumKeys = 0, 7, 6
	magic := binary.NativeEndian.AppendUint32([]byte{validate}, torchMagic)
	return [][]byte{{oldNumKeys}, append(magic, numKeys)}
}

// torchAnswer says that eight bytes are such a number.
func torchAnswer(answer [8]byte) bool {
	const many = 1 << 32
	return binary.NativeEndian.Uint64(answer[:]) < many
}
