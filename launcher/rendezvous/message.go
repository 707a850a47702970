package rendezvous

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// Protocol is the word by which a connection begins; another number is another protocol.
const Protocol = "mpiup-torchrun/1"

// greeting begins a connection without TLS.
const greeting = Protocol + "\n"

// Bounds of what comes over a connection.
const (
	maxFrame = 16 << 10
	maxText  = 2 << 10 // bytes of a sentence, cut where it is written
	maxName  = 253     // bytes of a host's name, as of DNS
	maxWord  = 4 << 10 // bytes of a run's id or a role
	maxNodes = 1 << 16
	maxRanks = 1 << 20
)

// MaxWord bounds a run's id and a role, in bytes.
const MaxWord = maxWord

// Hello is what a node says of itself.
type Hello struct {
	Name     string `json:"name"`              // of its host, for people
	RunID    []byte `json:"run_id"`            // --rdzv-id, the same on all nodes
	Least    int    `json:"least"`             // --nnodes
	Most     int    `json:"most"`              // likewise
	Number   int    `json:"number"`            // of the node, where --node-rank asks for one; -1: any
	Ranks    int    `json:"ranks"`             // that it starts
	Role     []byte `json:"role,omitempty"`    // --role
	Address  string `json:"address,omitempty"` // --local-addr, where others reach its ranks; "": by its connection
	Port     int    `json:"port"`              // free there for rank 0
	Patience int    `json:"patience"`          // seconds that its ranks may take to end
}

// Welcome answers a Hello that is accepted.
type Welcome struct {
	Name string `json:"name"` // of the host
}

// Refusal answers a Hello that is not.
type Refusal struct {
	Code int    `json:"code"` // exit code for the refused
	Text string `json:"text"` // a sentence
}

func (r *Refusal) Error() string { return r.Text }

// Begin lets a node start its ranks.
type Begin struct {
	Round         int    `json:"round"` // from 1
	Nodes         int    `json:"nodes"`
	Node          int    `json:"node"`
	World         int    `json:"world"`
	FirstRank     int    `json:"first_rank"`
	RoleWorld     int    `json:"role_world"`
	FirstRoleRank int    `json:"first_role_rank"`
	HostNode      int    `json:"host_node"`   // the number of the host's own node
	MasterAddr    string `json:"master_addr"` // "": where the node reached the host
	MasterPort    int    `json:"master_port"`
	Restarts      int    `json:"restarts"` // after failures, so far
	MaxRestarts   int    `json:"max_restarts"`
}

// End is a node's word that its ranks are being ended since some failed, and the host's that a node is to end its ranks.
type End struct {
	Round int    `json:"round"`
	Text  string `json:"text"`            // a sentence; the host's names the node
	Code  int    `json:"code"`            // the exit code as it is known
	Again bool   `json:"again,omitempty"` // the host's: ranks will start again, as far as is known
}

// Leave says that a pod is being taken away: its ranks have their time to save, and so have all others'.
type Leave struct {
	Round int    `json:"round"`
	Text  string `json:"text"`
}

// Ended says how a node's ranks have ended, all of them.
type Ended struct {
	Round int    `json:"round"`
	Code  int    `json:"code"`
	Text  string `json:"text,omitempty"`  // a sentence where the code is not 0
	Echo  bool   `json:"echo,omitempty"`  // they only say that they lost ranks of another node
	Final bool   `json:"final,omitempty"` // somebody asked for the end, or each start would come to the same
	Port  int    `json:"port"`            // free there for rank 0 of the next round
}

// Verdict is how a round has ended.
type Verdict struct {
	Round int    `json:"round"`
	Code  int    `json:"code"`
	Text  string `json:"text,omitempty"`  // a sentence that names the node; "" where all ended well
	Node  int    `json:"node"`            // which failed; -1: none
	Again bool   `json:"again,omitempty"` // ranks start again: a Begin follows
}

// Message is one frame: one of its members.
type Message struct {
	Hello   *Hello   `json:"hello,omitempty"`
	Welcome *Welcome `json:"welcome,omitempty"`
	Refusal *Refusal `json:"refusal,omitempty"`
	Begin   *Begin   `json:"begin,omitempty"`
	End     *End     `json:"end,omitempty"`
	Leave   *Leave   `json:"leave,omitempty"`
	Ended   *Ended   `json:"ended,omitempty"`
	Verdict *Verdict `json:"verdict,omitempty"`
}

var errFrame = errors.New("it sent what is no frame of mpiup's torchrun")

// frame is a message as it is sent.
func (m Message) frame() ([]byte, error) {
	text, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	if len(text) > maxFrame {
		return nil, fmt.Errorf("a message of %d bytes; %d are possible", len(text), maxFrame)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...), nil
}

// readMessage reads one frame. Its error is the connection's, or errFrame.
func readMessage(r io.Reader) (m Message, err error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return m, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > maxFrame {
		return m, errFrame
	}
	text := make([]byte, n)
	if _, err := io.ReadFull(r, text); err != nil {
		return m, err
	}

	d := json.NewDecoder(bytes.NewReader(text))
	if err := d.Decode(&m); err != nil || d.More() || !m.sound() {
		return Message{}, errFrame
	}
	return m, nil
}

// sound says that a message is one of those above and that what it says is within bounds.
func (m *Message) sound() bool {
	members := 0
	for _, is := range []bool{
		m.Hello != nil, m.Welcome != nil, m.Refusal != nil, m.Begin != nil, m.End != nil, m.Leave != nil, m.Ended != nil, m.Verdict != nil,
	} {
		if is {
			members++
		}
	}
	if members != 1 {
		return false
	}
	switch {
	case m.Hello != nil:
		return m.Hello.sound()
	case m.Welcome != nil:
		return len(m.Welcome.Name) <= maxName
	case m.Refusal != nil:
		return code(m.Refusal.Code) && m.Refusal.Code != 0 && text(m.Refusal.Text)
	case m.Begin != nil:
		return m.Begin.sound()
	case m.End != nil:
		return code(m.End.Code) && text(m.End.Text)
	case m.Leave != nil:
		return text(m.Leave.Text)
	case m.Ended != nil:
		return code(m.Ended.Code) && text(m.Ended.Text) && port(m.Ended.Port)
	}
	return code(m.Verdict.Code) && text(m.Verdict.Text)
}

func (h *Hello) sound() bool {
	const day = 24 * 60 * 60
	within := func(n, least, most int) bool { return least <= n && n <= most }
	return len(h.Name) <= maxName && len(h.Address) <= maxName && len(h.RunID) <= maxWord && len(h.Role) <= maxWord &&
		within(h.Least, 1, h.Most) && within(h.Most, 1, maxNodes) && within(h.Number, -1, maxNodes) &&
		within(h.Ranks, 1, maxRanks) && port(h.Port) && within(h.Patience, 0, day)
}

func (b *Begin) sound() bool {
	return b.Round >= 1 && 0 <= b.Node && b.Node < b.Nodes && b.Nodes <= maxNodes &&
		0 <= b.FirstRank && b.FirstRank < b.World && b.World <= maxRanks &&
		0 <= b.FirstRoleRank && b.FirstRoleRank < b.RoleWorld && b.RoleWorld <= b.World &&
		len(b.MasterAddr) <= maxName && port(b.MasterPort) && b.Restarts >= 0 && b.MaxRestarts >= 0
}

func code(n int) bool { return 0 <= n && n <= 255 }

func port(n int) bool { return 0 < n && n <= 65535 }

func text(s string) bool { return len(s) <= maxText }

// clip cuts a sentence to what a frame carries.
func clip(s string) string {
	if len(s) <= maxText {
		return s
	}
	return s[:maxText-len("…")] + "…"
}
