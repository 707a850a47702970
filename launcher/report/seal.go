package report

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/mpiup/mpiup/internal/bounded"
)

// word begins each line of a sealed report, behind whatever a collector puts there.
const word = "mpiup-report "

const (
	begins      = "begins "
	lineBytes   = 4000 // of base64 in a line: runtimes cut lines at 16 KiB
	maxParts    = MaxSealed/lineBytes + 1
	maxUnpacked = 4 << 20 // bytes of what a sealed report unpacks to
)

// Key is random, and nobody's but the launcher's until the seal at the end of its log has it.
type Key [16]byte

// Promise is the line that a launcher writes before any rank runs. Only the report that was sealed with that key keeps it, so that ranks, whose
// output comes between the two, can write a report but none that was promised.
func Promise(k Key) string { return word + begins + k.digest() }

func (k Key) digest() string {
	s := sha256.Sum256(k[:])
	return hex.EncodeToString(s[:])
}

// Seal is the report as lines for a log, without '\n'. What has no room is left out, the least telling first, and named
// in LeftOut.
func Seal(r *Report, k Key) ([]string, error) {
	for _, without := range []struct {
		what string
		do   func(*Report) error
	}{
		{"", func(*Report) error { return nil }},
		{"lines of ranks that ended well", eachRank(func(p *Rank) {
			if p.End == "" || p.End == "exit code 0" {
				p.Last = nil
			}
		})},
		{"the middle of the events", thin(400)},
		{"what each rank did when", func(r *Report) error { r.Rows, r.Phases = nil, nil; return nil }},
		{"what machines the hosts are", func(r *Report) error { r.Machines = nil; return nil }},
		{"lines of ranks, but for the last three", eachRank(func(p *Rank) { p.Last = p.Last[max(0, len(p.Last)-3):] })},
		{"curves of --watch and of memory", func(r *Report) error { r.Curves, r.Memory = nil, nil; return nil }},
		{"all lines of ranks", eachRank(func(p *Rank) { p.Last = nil })},
		{"environments", func(r *Report) error {
			r.Programs = append([]Program{}, r.Programs...)
			for i := range r.Programs {
				r.Programs[i].Env = nil
			}
			return nil
		}},
		{"ranks", func(r *Report) error { r.Ranks = nil; return nil }},
		{"all events but forty", thin(40)},
		{"of each text all but 1024 bytes, and of each list all but 1024 items", shorten(1024)},
		{"of each text all but 256 bytes, and of each list all but 256 items", shorten(256)},
		{"of each text all but 64 bytes, and of each list all but 64 items", shorten(64)},
	} {
		if without.what != "" {
			small := *r
			small.LeftOut = append(append([]string{}, r.LeftOut...), without.what)
			if err := without.do(&small); err != nil {
				return nil, err
			}
			r = &small
		}
		packed, err := pack(r, k)
		if errors.Is(err, bounded.ErrTooLarge) {
			continue
		}
		if err != nil {
			return nil, err
		}
		return parts(packed), nil
	}
	return nil, fmt.Errorf("the report of job %s takes more than %d bytes, packed", cut(r.Job, 64), MaxSealed)
}

func eachRank(f func(*Rank)) func(*Report) error {
	return func(r *Report) error {
		r.Ranks = append([]Rank{}, r.Ranks...)
		for i := range r.Ranks {
			f(&r.Ranks[i])
		}
		return nil
	}
}

// thin leaves the first and the last events, n together.
func thin(n int) func(*Report) error {
	return func(r *Report) error {
		if len(r.Events) > n {
			r.Dropped += len(r.Events) - n
			r.Events = append(append([]Event{}, r.Events[:n/2]...), r.Events[len(r.Events)-n/2:]...)
		}
		return nil
	}
}

// shorten leaves n bytes of each text and n items of each list, wherever they stand.
func shorten(n int) func(*Report) error {
	return func(r *Report) error {
		text, err := json.Marshal(r)
		if err != nil {
			return fmt.Errorf("packing the report: %w", err)
		}
		small := Report{}
		if err := json.Unmarshal(text, &small); err != nil {
			return fmt.Errorf("packing the report: %w", err)
		}
		left := small.LeftOut
		shortened(reflect.ValueOf(&small).Elem(), n)
		small.LeftOut = left
		*r = small
		return nil
	}
}

func shortened(v reflect.Value, n int) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(cut(v.String(), n))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			shortened(v.Elem(), n)
		}
	case reflect.Slice:
		if v.CanSet() && v.Len() > n {
			v.SetLen(n)
		}
		for i := range v.Len() {
			shortened(v.Index(i), n)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				shortened(v.Field(i), n)
			}
		}
	}
}

// pack is what is sealed: gzip of the JSON, and the key. One that Unseal would refuse is too large.
func pack(r *Report, k Key) ([]byte, error) {
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("packing the report: %w", err)
	}
	if len(text) > maxUnpacked || crowded(text) != nil {
		return nil, bounded.ErrTooLarge
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, err = z.Write(text)
	if err = errors.Join(err, z.Close()); err != nil {
		return nil, fmt.Errorf("packing the report: %w", err)
	}
	b.Write(k[:])
	if base64.StdEncoding.EncodedLen(b.Len()) > MaxSealed {
		return nil, bounded.ErrTooLarge
	}
	return b.Bytes(), nil
}

func parts(packed []byte) (lines []string) {
	text := base64.StdEncoding.EncodeToString(packed)
	count := (len(text) + lineBytes - 1) / lineBytes
	for i := range count {
		lines = append(lines, fmt.Sprintf("%s%s %d/%d %s", word, sum(packed), i+1, count, text[i*lineBytes:min(len(text), (i+1)*lineBytes)]))
	}
	return lines
}

func sum(packed []byte) string {
	s := sha256.Sum256(packed)
	return hex.EncodeToString(s[:4])
}
