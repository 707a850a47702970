package launcher

import (
	"errors"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/pmi"
	"github.com/mpiup/mpiup/pmi/pmix"
)

// The advice for a broken protocol is for the one that the agent's sentence is about.
func TestAdviceForABrokenProtocol(t *testing.T) {
	why := errors.New("x")
	for _, tt := range []struct {
		says error
		want string
	}{
		{&pmix.ProtocolError{Version: "5.0.7", Err: why}, "PMIx 3.1 to 7.0"},
		{&pmi.ProtocolError{Err: why}, "PMI_FD"},
	} {
		f := fault{kind: faultRank, host: "w0", broke: true, text: tt.says.Error()}
		if got := f.rankHint(); !strings.Contains(got, tt.want) {
			t.Errorf("%v: advice %q", tt.says, got)
		}
	}
}
