package main

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// word is what came of a cell.
type word string

const (
	ok            word = "ok"
	onRetry       word = "ok on retry"
	fails         word = "fails"
	notApplicable word = "n/a"
)

// result is what is kept of a cell.
type result struct {
	Stack, Program string
	Where          where
	Word           word
	Reason         string // empty with ok
	Command        string // of one that fails
	Seconds        float64
	Suite          *suiteResult // of mpi4py's test suite
	Version        string       // what the library says of itself
	Commit, Date   string       // of mpiup, and of the run
}

// path is where a result is kept; its output has the ending .txt.
func (m *matrix) path(r result, ending string) string {
	at := strings.ReplaceAll(string(r.Where), " ", "-")
	return filepath.Join(m.dir, "results", r.Stack, r.Program+"."+at+ending)
}

// keep saves the output of a cell that failed, beside its result.
func (m *matrix) keep(r result, argv []string, text string) result {
	r.Command = strings.Join(argv, " ")
	path := m.path(r, ".txt")
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte("$ "+r.Command+"\n"+text), 0o644)
	}
	if err != nil {
		r.Reason += " (its output is not kept: " + err.Error() + ")"
	}
	return r
}

// after is the result as it counts beside the one that was kept of the cell. An ok after a failure of the same build
// of mpiup is "ok on retry", whoever ran the cell again.
func (r result) after(kept *result) result {
	if r.Word != ok || kept == nil || kept.Commit != r.Commit {
		return r
	}
	switch kept.Word {
	case fails:
		r.Word, r.Reason = onRetry, "before: "+kept.Reason
	case onRetry:
		r.Word, r.Reason = onRetry, kept.Reason
	}
	return r
}

func (m *matrix) save(r result) error {
	path := m.path(r, ".json")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	if r.Word != fails { // an earlier one's output tells nothing any more
		if err := os.Remove(m.path(r, ".txt")); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	b, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(b, '\n'), 0o644)
}

// load finds the kept result of a cell; nil when it was never run.
func (m *matrix) load(stack, program string, at where) (*result, error) {
	b, err := os.ReadFile(m.path(result{Stack: stack, Program: program, Where: at}, ".json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	r := new(result)
	return r, json.Unmarshal(b, r)
}
