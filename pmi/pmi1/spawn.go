package pmi1

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/mpiup/mpiup/pmi/message"
)

// readSpawn reads the rest of an mcmd request: blocks of key=value lines, one per program,
// each ended by "endcmd". The last block is the one whose spawnssofar equals its totspawns
// (MPICH src/pmi/simple/simple_pmi.c, PMI_Spawn_multiple); other mcmd requests have one block.
// Values may hold blanks and "=".
func readSpawn(r *bufio.Reader, first []byte) (*message.Message, error) {
	m := &message.Message{Name: string(first[len("mcmd="):])}
	if !validName(m.Name) {
		return nil, syntax("a command without a proper name", first)
	}
	size, blocks := len(first), 1
	sofar, total := 0, 0
	for {
		line, err := readLine(r)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		if size += len(line) + 1; size > MaxSpawn {
			return nil, syntax(fmt.Sprintf("a spawn request of more than %d bytes", MaxSpawn), first)
		}
		text := strings.Trim(string(line), " ")
		if text == "endcmd" {
			if sofar >= total {
				return m, nil
			}
			blocks++
			continue
		}
		key, value, ok := strings.Cut(text, "=")
		switch {
		case text == "":
			continue
		case !ok || key == "":
			return nil, syntax("a line of a spawn request without =", line)
		case key == "mcmd":
			if value != m.Name || blocks == 1 {
				return nil, syntax("another request inside a spawn request", line)
			}
			continue
		case key == "cmd":
			return nil, syntax("another request inside a spawn request", line)
		}
		if len(m.Pairs) >= MaxPairs*16 {
			return nil, syntax(fmt.Sprintf("a spawn request of more than %d lines", MaxPairs*16), first)
		}
		m.Add(key, value)
		switch key {
		case "totspawns":
			total, err = strconv.Atoi(value)
		case "spawnssofar":
			sofar, err = strconv.Atoi(value)
		}
		if err != nil {
			return nil, syntax("a number that is none", line)
		}
	}
}
