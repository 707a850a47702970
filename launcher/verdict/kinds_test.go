package verdict

import (
	"regexp"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/golden"
)

// The page is the table: go test -update writes it anew.
func TestPage(t *testing.T) { golden.Is(t, "../../docs/troubleshooting.md", Page()) }

// Each kind says what it means, how to tell and what to do, under a name that a heading's link can have.
func TestKinds(t *testing.T) {
	seen := map[Kind]bool{}
	for _, k := range Kinds {
		if seen[k.Kind] || !regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`).MatchString(string(k.Kind)) {
			t.Errorf("%q is no name, or there twice", k.Kind)
		}
		seen[k.Kind] = true
		if k.Title == "" || !strings.HasSuffix(k.Means, ".") || len(k.Tell) == 0 || len(k.Do) == 0 {
			t.Errorf("%s lacks something: %+v", k.Kind, k)
		}
	}
	if Of("none").Title != "" || Of(Segfault).Kind != Segfault {
		t.Error("Of finds what is not there, or not what is")
	}
}
