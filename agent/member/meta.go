package member

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/mpiup/mpiup/internal/hostlist"
)

// meta is what a member says of itself beside its address. It travels as memberlist's node
// metadata, at most 512 bytes, and is hostile input.
//
//	byte     1 (layout)
//	uvarint  born      ms since 1970 by its own clock: orders lives on one machine only
//	uvarint  protocol
//	uvarint  slots
//	string   name         uvarint length, bytes
//	string   incarnation
//	string   version
//	string   digest
//	...      later fields, passed over
type meta struct {
	born uint64
	Self // whose address goes beside it
}

const (
	metaLayout     = 1
	maxName        = 253
	maxIncarnation = 64
	maxVersion     = 64
	maxDigest      = 80
	maxSlots       = 1 << 20
)

var errMeta = errors.New("malformed metadata")

// check holds a member to the bounds of the format, so that the encoding fits in 512 bytes.
func (m meta) check() error {
	for _, f := range []struct {
		what, value string
		min, max    int
	}{
		{"name", m.Name, 1, maxName},
		{"incarnation", m.Incarnation, 1, maxIncarnation},
		{"version", m.Version, 0, maxVersion},
		{"digest", m.Digest, 0, maxDigest},
	} {
		if len(f.value) < f.min || len(f.value) > f.max || !printable(f.value) {
			return fmt.Errorf("%w: %s %q is not %d to %d printable ASCII characters", errMeta, f.what, f.value, f.min, f.max)
		}
	}
	// Others make tables, tags and names of files of it.
	if err := hostlist.CheckName(m.Name); err != nil {
		return fmt.Errorf("%w: name: %w", errMeta, err)
	}
	if m.Slots < 0 || m.Slots > maxSlots {
		return fmt.Errorf("%w: %d slots", errMeta, m.Slots)
	}
	return nil
}

func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' })
}

func (m meta) encode() []byte {
	b := []byte{metaLayout}
	b = binary.AppendUvarint(b, m.born)
	b = binary.AppendUvarint(b, uint64(m.Protocol))
	b = binary.AppendUvarint(b, uint64(m.Slots))
	for _, s := range []string{m.Name, m.Incarnation, m.Version, m.Digest} {
		b = appendString(b, s)
	}
	return b
}

func decodeMeta(b []byte) (meta, error) {
	if len(b) == 0 || b[0] != metaLayout {
		return meta{}, errMeta
	}
	r := reader{b: b[1:]}
	var m meta
	m.born = r.uvarint(1 << 62)
	m.Protocol = uint32(r.uvarint(1<<32 - 1))
	m.Slots = int(r.uvarint(maxSlots))
	m.Name = r.string(maxName)
	m.Incarnation = r.string(maxIncarnation)
	m.Version = r.string(maxVersion)
	m.Digest = r.string(maxDigest)
	if r.bad {
		return meta{}, errMeta
	}
	return m, m.check()
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// reader takes fields off b; bad once one was cut or out of bounds.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) uvarint(most uint64) uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 || v > most {
		r.bad, r.b = true, nil
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) string(most int) string {
	n := int(r.uvarint(uint64(most)))
	if n > len(r.b) {
		r.bad, r.b = true, nil
		return ""
	}
	s := string(r.b[:n])
	r.b = r.b[n:]
	return s
}
