package main

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"runtime"
	"strings"
)

// statement is an in-toto statement with a provenance of SLSA 1.0 (https://slsa.dev/spec/v1.0/provenance).
type statement struct {
	Type          string     `json:"_type"`
	Subject       []artifact `json:"subject"`
	PredicateType string     `json:"predicateType"`
	Predicate     predicate  `json:"predicate"`
}

// artifact is a thing by its digests, of files sha256 and of sources gitCommit.
type artifact struct {
	Name   string            `json:"name,omitempty"`
	URI    string            `json:"uri,omitempty"`
	Digest map[string]string `json:"digest,omitempty"`
}

type predicate struct {
	BuildDefinition struct {
		BuildType            string            `json:"buildType"`
		ExternalParameters   map[string]string `json:"externalParameters"`
		ResolvedDependencies []artifact        `json:"resolvedDependencies"`
	} `json:"buildDefinition"`
	RunDetails struct {
		Builder struct {
			ID string `json:"id"`
		} `json:"builder"`
	} `json:"runDetails"`
}

const repository = "https://github.com/mpiup/mpiup"

var (
	sum    = regexp.MustCompile(`^([0-9a-f]{64})  (\S+)$`)
	commit = regexp.MustCompile(`^[0-9a-f]{40}$`)
)

// provenance writes of what commit, and by what, the files and images of a list of sums were built. It has no times: two builds of
// one commit give the same statement.
func provenance(w io.Writer, sums, version, of string) error {
	if !commit.MatchString(of) {
		return fmt.Errorf("-commit %q is no commit", of)
	}
	s := statement{Type: "https://in-toto.io/Statement/v1", PredicateType: "https://slsa.dev/provenance/v1"}
	for line := range strings.Lines(sums) {
		m := sum.FindStringSubmatch(strings.TrimSuffix(line, "\n"))
		if m == nil {
			return fmt.Errorf("the sums have the line %q", line)
		}
		s.Subject = append(s.Subject, artifact{Name: m[2], Digest: map[string]string{"sha256": m[1]}})
	}
	if len(s.Subject) == 0 {
		return fmt.Errorf("there are no sums")
	}
	d := &s.Predicate.BuildDefinition
	d.BuildType = repository + "/blob/main/test/release/release.sh"
	d.ExternalParameters = map[string]string{"version": version}
	d.ResolvedDependencies = []artifact{
		{URI: "git+" + repository + "@" + version, Digest: map[string]string{"gitCommit": of}},
		{URI: "pkg:golang/stdlib@" + strings.TrimPrefix(runtime.Version(), "go")},
	}
	s.Predicate.RunDetails.Builder.ID = repository + "/blob/main/Makefile"
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(s)
}
