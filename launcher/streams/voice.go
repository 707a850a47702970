package streams

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"

	"github.com/mpiup/mpiup/internal/visible"
)

// Voice is a log's records as lines of mpiup's own, as the others that a user reads: "mpiup: 19:04:05.123 files sent (files 2, hosts 3)".
func Voice(w io.Writer, least slog.Level) slog.Handler {
	return &voice{mu: &sync.Mutex{}, w: w, least: least}
}

type voice struct {
	mu    *sync.Mutex
	w     io.Writer // guarded by mu
	least slog.Level
	said  []string // of all records
}

// Enabled says whether records of a level are shown.
func (v *voice) Enabled(_ context.Context, level slog.Level) bool { return level >= v.least }

// Handle writes a record.
func (v *voice) Handle(_ context.Context, r slog.Record) error {
	said := v.said
	r.Attrs(func(a slog.Attr) bool {
		said = append(said[:len(said):len(said)], fmt.Sprintf("%s %v", a.Key, a.Value))
		return true
	})
	text := r.Message
	if len(said) > 0 {
		text += " (" + strings.Join(said, ", ") + ")"
	}
	if r.Level >= slog.LevelWarn {
		text = "warning: " + text
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	_, err := visible.Fprintf(v.w, "mpiup: %s %s\n", r.Time.Format("15:04:05.000"), visible.Line(text))
	return err
}

// WithAttrs is the log with attributes in each record.
func (v *voice) WithAttrs(attrs []slog.Attr) slog.Handler {
	with := *v
	for _, a := range attrs {
		with.said = append(with.said[:len(with.said):len(with.said)], fmt.Sprintf("%s %v", a.Key, a.Value))
	}
	return &with
}

// WithGroup is the log itself: its names are few.
func (v *voice) WithGroup(string) slog.Handler { return v }
