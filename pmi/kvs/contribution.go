package kvs

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
)

// A contribution is what one host adds to a fence. Numbers are unsigned varints
// (encoding/binary); it is empty when there is nothing to add.
//
//	┌───────────┬─────────────────────────────────────────────────┬─ ─ ─
//	│ version 1 │ owner │ key length │ key │ value length │ value │ next …
//	└───────────┴─────────────────────────────────────────────────┴─ ─ ─
//
// The first entry has putsKey as its key and, as another varint, how many puts of the host the contribution comes after:
// of two fences the one that ends last may bring what was put first. A contribution without it comes after none, and
// a host that does not know it takes it for a value like others.
//
// A host that may not contribute what it has says why instead: version 2 and a text. The fence then fails on all hosts.
const (
	refusalVersion      = 2
	refusalMax          = 512 // bytes of a text
	contributionVersion = 1
	headerLen           = 1
	entryMax            = 3 * binary.MaxVarintLen32 // of an entry without key and value

	putsKey = "PMI_puts"
	putsMax = entryMax + len(putsKey) + binary.MaxVarintLen64
)

var errCut = errors.New("a contribution is cut short")

func appendHeader(b []byte) []byte { return append(b, contributionVersion) }

func appendPuts(b []byte, owner int, puts uint64) []byte {
	return appendEntry(b, owner, putsKey, binary.AppendUvarint(nil, puts))
}

func appendEntry(b []byte, owner int, key string, value []byte) []byte {
	b = binary.AppendUvarint(b, uint64(owner))
	b = binary.AppendUvarint(b, uint64(len(key)))
	b = append(b, key...)
	b = binary.AppendUvarint(b, uint64(len(value)))
	return append(b, value...)
}

func appendRefusal(b []byte, why string) []byte {
	return append(append(b, refusalVersion), why[:min(len(why), refusalMax)]...)
}

// forEach calls f for every entry of a contribution, which comes after so many puts of its host; value points into data.
func forEach(data []byte, f func(owner int, key string, v value) error) error {
	if len(data) == 0 {
		return nil
	}
	if data[0] == refusalVersion {
		return &FenceLimitError{fmt.Sprintf("another host says %q", data[headerLen:min(len(data), headerLen+refusalMax)])}
	}
	if data[0] != contributionVersion {
		return fmt.Errorf("a contribution of version %d where %d is known", data[0], contributionVersion)
	}
	data = data[headerLen:]
	puts := uint64(0)
	for first := true; len(data) > 0; first = false {
		owner, n := binary.Uvarint(data)
		if n <= 0 || owner > math.MaxInt32 {
			return errCut
		}
		key, rest, ok := cutField(data[n:])
		if !ok {
			return errCut
		}
		bytes, rest, ok := cutField(rest)
		if !ok {
			return errCut
		}
		data = rest
		if first && string(key) == putsKey {
			if puts, n = binary.Uvarint(bytes); n != len(bytes) {
				return errCut
			}
			continue
		}
		if err := f(int(owner), string(key), value{bytes, puts}); err != nil {
			return err
		}
	}
	return nil
}

// cutField takes a length and so many bytes off data.
func cutField(data []byte) (field, rest []byte, ok bool) {
	size, n := binary.Uvarint(data)
	if n <= 0 || size > uint64(len(data)-n) {
		return nil, nil, false
	}
	end := n + int(size)
	return data[n:end], data[end:], true
}
