package archtest

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// reaching is what a PURE package has not even behind what it imports.
var reaching = []string{"net", "net/http", "crypto/tls", "google.golang.org/grpc", "golang.org/x/sys/unix"}

// excusedReach are PURE packages that reach a network or the system behind what they import, and what they reach.
var excusedReach = map[string][]string{
	"agent/outfit":              {"net", "golang.org/x/sys/unix"},
	"internal/identity/keyfile": {"net"},
	"launcher/run":              {"golang.org/x/sys/unix"},
}

// packageComment finds the word by which a package says that it is PURE.
var packageComment = regexp.MustCompile(`(?m)^//.*\bPURE\b`)

// A package that says PURE is linked into a test, or into another program, without a network.
func TestPurityIsDeep(t *testing.T) {
	saysPure := map[string]bool{}
	eachFile(t, func(path string, text []byte) {
		comment, _, found := bytes.Cut(text, []byte("\npackage "))
		if found && packageComment.Match(comment) {
			saysPure[filepath.Dir(path)] = true
		}
	})

	for _, p := range packages(t) {
		if !saysPure[p.Path()] {
			continue
		}
		reached := reachedBy(p.Deps)
		excused := excusedReach[p.Path()]
		for _, what := range reached {
			if !slices.Contains(excused, what) {
				t.Errorf("%s says that it is PURE and has %s behind what it imports", p.Path(), what)
			}
		}
		for _, what := range excused {
			if !slices.Contains(reached, what) {
				t.Errorf("%s does not reach %s any more: take that off excusedReach", p.Path(), what)
			}
		}
	}
	for path := range excusedReach {
		if !saysPure[path] {
			t.Errorf("%s stands in excusedReach and does not say that it is PURE", path)
		}
	}
}

// reachedBy lists those of a package's imports, and of theirs, that reach a network or the system.
func reachedBy(deps []string) (reached []string) {
	for _, dep := range deps {
		if slices.Contains(reaching, dep) {
			reached = append(reached, dep)
		}
	}
	return reached
}

func TestReachIsSeen(t *testing.T) {
	got := reachedBy([]string{"fmt", "net", "net/netip", "crypto/tls"})
	if !slices.Equal(got, []string{"net", "crypto/tls"}) {
		t.Errorf("%q reach out", got)
	}
}
