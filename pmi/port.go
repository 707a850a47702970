package pmi

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mpiup/mpiup/internal/socket"
)

const (
	handshakeTime  = 5 * time.Second
	handshakeBytes = 128
	maxPerRank     = 64 // connections open at one time
	wrongIDs       = 16 // after so many the gate stays shut: 2^-26 for a guess in a job of 4 ranks a host
)

// Gate tells which rank connects where ranks get PMI_PORT and PMI_ID instead of a descriptor. The
// id is the proof: 31 random bits, because clients read PMI_ID as an int (MPICH
// src/pmi/simple/simple_pmi.c). Safe for concurrent use.
type Gate struct {
	ids   map[int]int32 // by rank
	mu    sync.Mutex
	wrong int         // guarded by mu
	in    map[int]int // guarded by mu; connections by rank
}

// ErrGateShut is the answer to everybody after too many wrong ids.
var ErrGateShut = errors.New("too many connections with a wrong PMI_ID: no more are taken for this job")

// NewGate makes ids for ranks.
func NewGate(ranks []int) *Gate {
	g := &Gate{ids: map[int]int32{}, in: map[int]int{}}
	used := map[int32]bool{}
	for _, r := range ranks {
		for {
			var b [4]byte
			rand.Read(b[:])
			id := int32(binary.LittleEndian.Uint32(b[:]) & math.MaxInt32)
			if id != 0 && !used[id] {
				g.ids[r], used[id] = id, true
				break
			}
		}
	}
	return g
}

// ID is rank's PMI_ID, and 0 for a rank the gate does not know.
func (g *Gate) ID(rank int) int { return int(g.ids[rank]) }

// Admit reads the handshake on a new connection, for at most five seconds of the client's silence, and returns whose it
// is. Welcome is its answer. leave must be called when the connection has ended. A rank may connect again: MPICH since
// 4.3 does so for each MPI session, and a script may run several MPI programs. After an error the
// caller closes conn.
func (g *Gate) Admit(conn net.Conn) (rank int, leave func(), err error) {
	lift := socket.Hear(conn, handshakeTime)
	line, err := readShort(conn)
	if late := lift(); err == nil {
		err = late
	}
	if err == nil {
		rank, err = g.enter(line)
	}
	if err != nil {
		return 0, nil, fmt.Errorf("PMI connection from %s: %w", conn.RemoteAddr(), err)
	}
	return rank, sync.OnceFunc(func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.in[rank]--
	}), nil
}

// Welcome answers a rank that was admitted to a job of so many ranks. After an error the caller closes conn: the rank waits for that answer.
func Welcome(conn net.Conn, rank, size int) error {
	answer := fmt.Sprintf("cmd=initack rc=0\ncmd=set size=%d\ncmd=set rank=%d\ncmd=set debug=0\n", size, rank)
	if _, err := conn.Write([]byte(answer)); err != nil {
		return fmt.Errorf("rank %d: PMI connection: %w", rank, err)
	}
	return nil
}

// readShort reads one line and not a byte more, since what follows is another's to read.
func readShort(conn net.Conn) (string, error) {
	line, b := make([]byte, 0, 32), make([]byte, 1)
	for len(line) < handshakeBytes {
		if _, err := conn.Read(b); err != nil {
			return "", fmt.Errorf("waiting for cmd=initack: %w", err)
		}
		if b[0] == '\n' {
			return string(line), nil
		}
		line = append(line, b[0])
	}
	return "", fmt.Errorf("a first line of more than %d bytes is not cmd=initack", handshakeBytes)
}

func (g *Gate) enter(line string) (rank int, err error) {
	m, err := ParsePMI1(line)
	if err != nil || m.Name != "initack" {
		return 0, fmt.Errorf("%.40q is not cmd=initack pmiid=ID", line)
	}
	id, err := strconv.ParseInt(strings.TrimSpace(m.Value("pmiid")), 10, 32)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not cmd=initack pmiid=ID", line)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.wrong >= wrongIDs {
		return 0, ErrGateShut
	}
	rank = -1
	for r, want := range g.ids { // all of them, whichever it is
		if subtle.ConstantTimeEq(want, int32(id)) == 1 {
			rank = r
		}
	}
	switch {
	case rank < 0:
		g.wrong++
		return 0, errors.New("its PMI_ID is no rank's of this job")
	case g.in[rank] >= maxPerRank:
		return 0, fmt.Errorf("rank %d has %d open connections already", rank, maxPerRank)
	}
	g.in[rank]++
	return rank, nil
}
