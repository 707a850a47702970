package cli

import (
	"fmt"
	"strings"
)

// tagWords is the value of --tag-with.
type tagWords struct{ f *RunFlags }

func (t *tagWords) Set(s string) error {
	for w := range strings.SplitSeq(s, ",") {
		switch w {
		case "host":
			t.f.TagHost = true
		case "stream":
			t.f.TagStream = true
		default:
			return fmt.Errorf("%s is not known; use host, stream or host,stream", clip(w))
		}
	}
	return nil
}

func (t *tagWords) String() string { return "" }
func (t *tagWords) Type() string   { return "what" }
