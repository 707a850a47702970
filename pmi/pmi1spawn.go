package pmi

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// readSpawn reads the rest of an mcmd request: blocks of key=value lines, one per program,
// each ended by "endcmd", which becomes a pair without value. The last block is the one whose
// spawnssofar equals its totspawns (MPICH src/pmi/simple/simple_pmi.c, PMI_Spawn_multiple); other
// mcmd requests have one block.
//
// Values may hold blanks and "=", and nothing in them is escaped. Clients send an argument's line end as it is. So a
// line that does not begin with a key of spawn belongs to the value above it.
func readSpawn(r *bufio.Reader, first []byte) (*Message, error) {
	m := &Message{Name: string(first[len("mcmd="):])}
	if !validName(m.Name) {
		return nil, syntax("a command without a proper name", string(first))
	}
	size, blocks := len(first), 1
	sofar, total := 0, 0
	var more []byte // lines that belong to the value above
	for {
		line, err := readLine(r)
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, err
		}
		if size += len(line) + 1; size > MaxSpawn {
			return nil, syntax(fmt.Sprintf("a spawn request of more than %d bytes", MaxSpawn), string(first))
		}
		if len(m.Pairs) >= MaxPairs*16 {
			return nil, syntax(fmt.Sprintf("a spawn request of more than %d lines", MaxPairs*16), string(first))
		}
		key, value, _ := strings.Cut(string(line), "=")
		isKey := isSpawnKey(key) || key == "cmd" || key == "mcmd" || string(line) == "endcmd"
		if isKey && len(more) > 0 {
			m.Pairs[len(m.Pairs)-1].Value += string(more)
			more = more[:0]
		}
		switch {
		case string(line) == "endcmd":
			m.Add("endcmd", "")
			if sofar >= total {
				return m, nil
			}
			blocks++
		case key == "mcmd" && blocks > 1 && value == m.Name:
		case key == "cmd" || key == "mcmd":
			return nil, syntax("another request inside a spawn request", string(line))
		case isKey:
			m.Add(key, value)
			if key == "totspawns" {
				total, err = strconv.Atoi(value)
			}
			if key == "spawnssofar" {
				sofar, err = strconv.Atoi(value)
			}
			if err != nil {
				return nil, syntax("a number that is none", string(line))
			}
		case len(m.Pairs) == 0:
			return nil, syntax("a line of a spawn request without =", string(line))
		default:
			more = append(append(more, '\n'), line...)
		}
	}
}

// isSpawnKey says whether s is a key of spawn, with a number where it takes one.
func isSpawnKey(s string) bool {
	name := strings.TrimRight(s, "0123456789")
	switch name {
	case "nprocs", "execname", "totspawns", "spawnssofar", "argcnt", "preput_num", "info_num":
		return name == s
	case "arg", "preput_key_", "preput_val_", "info_key_", "info_val_":
		return name != s
	}
	return false
}
