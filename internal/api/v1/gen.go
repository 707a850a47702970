// Package apiv1 is the protocol between launchers and agents: generated from mpiup.proto,
// whose comments describe the conversation. Protocol is raised with every change that an
// older peer would misread; builds of one protocol number mix. testdata/mpiup.txt freezes what they agree on.
package apiv1

// What is asked of a run by its user on the same machine (internal/nearby).
const (
	AskSaid  byte = 3 // lines that ranks wrote last, each behind a tag with rank, host and stream
	AskRanks byte = 4 // RanksRequest: RanksReply; 1 and 2 were other questions, which runs of older builds know
)

//go:generate sh ./gen.sh

// Protocol is this build's protocol number.
const Protocol = 7

// CopyWindow is how many bytes of CopyData may be under way to one host.
const CopyWindow = 4 << 20

// MaxProcs is how many processes of one job a host starts at the most.
const MaxProcs = 4096

// MaxFrame is the most bytes of a frame, packed, that either side takes. What would be larger is refused where it is
// made: a stream that breaks over it would be resumed, and break again.
const MaxFrame = 256 << 20

// AskProtocol is the protocol (ALPN) of all calls but Attach, which is "h2". An agent without it answers them there.
const AskProtocol = "mpiup-ask/1"
