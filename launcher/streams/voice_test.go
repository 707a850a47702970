package streams

import (
	"log/slog"
	"regexp"
	"strings"
	"testing"
)

func TestVoice(t *testing.T) {
	var out strings.Builder
	log := slog.New(Voice(&out, slog.LevelInfo)).With("host", "w0")
	log.Debug("unseen")
	log.Info("files sent", "files", 2)
	log.WithGroup("g").Warn("odd\x1b[2J\nmpiup: all is well")
	text := regexp.MustCompile(`\d\d:\d\d:\d\d\.\d{3}`).ReplaceAllString(out.String(), "T")
	if want := "mpiup: T files sent (host w0, files 2)\nmpiup: T warning: odd\\u001b[2J\\nmpiup: all is well (host w0)\n"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
}
