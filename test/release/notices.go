package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// noticesFile is THIRD_PARTY_NOTICES, at the top of the repository and in all that a release has.
const noticesFile = "THIRD_PARTY_NOTICES"

// ours is the licence of mpiup itself.
const ours = "Apache-2.0"

// module is what a binary of ours is linked with.
type module struct {
	path, version, dir string
	// packages are the directories of those of its packages that are linked.
	packages []string
}

// licence is a text under which one module or several stand.
type licence struct {
	// ids are the SPDX identifiers of what the text grants; a NOTICE or a grant of patents has none.
	ids  []string
	text string
	of   []string
}

// builds are the builds of a release, as far as they decide what is linked: the same command has other packages on another system.
var builds = []struct{ command, arch, cgo string }{
	{"./cmd/mpiup", "amd64", "0"}, {"./cmd/mpiup", "arm64", "0"},
	{"./cmd/mpiup-otel", "amd64", "0"}, {"./cmd/mpiup-otel", "arm64", "0"},
	{"./cmd/mpiup-nvml", "amd64", "1"}, {"./cmd/mpiup-nvml", "arm64", "1"},
}

// linked asks Go which modules the release's binaries are linked with. root is the repository.
func linked(root string) ([]module, error) {
	found := map[string]*module{}
	for _, b := range builds {
		cmd := exec.Command("go", "list", "-deps", "-tags", "grpcnotrace",
			"-f", "{{with .Module}}{{if not .Main}}{{.Path}}\t{{.Version}}\t{{.Dir}}\t{{$.Dir}}{{end}}{{end}}", b.command)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "GOOS=linux", "GOARCH="+b.arch, "CGO_ENABLED="+b.cgo)
		out, err := cmd.Output()
		if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		if err != nil {
			return nil, fmt.Errorf("go list -deps %s for %s: %w", b.command, b.arch, err)
		}

		for line := range strings.Lines(string(out)) {
			fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
			if len(fields) != 4 { // a package of Go's own, or of ours
				continue
			}
			m := found[fields[0]]
			if m == nil {
				m = &module{path: fields[0], version: fields[1], dir: fields[2]}
				found[m.path] = m
			}
			m.packages = append(m.packages, fields[3])
		}
	}
	if len(found) == 0 {
		return nil, errors.New("go list -deps names no module: nothing is linked?")
	}

	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	goroot := strings.TrimSpace(string(out))
	found["std"] = &module{path: "Go's standard library and runtime", version: "(of the release's Go)", dir: goroot, packages: []string{goroot}}

	modules := make([]module, 0, len(found))
	for _, path := range slices.Sorted(maps.Keys(found)) {
		modules = append(modules, *found[path])
	}
	return modules, nil
}

// licenceFile reports whether a file by that name has terms: LICENSE, LICENCE.txt, COPYING, NOTICE, PATENTS, LICENSE-MIT and so on.
func licenceFile(name string) bool {
	word := strings.ToUpper(name)
	word = word[:len(word)-len(strings.TrimLeft(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"))]
	return slices.Contains([]string{"LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "PATENTS"}, word) && filepath.Ext(name) != ".go"
}

// files are a module's files with terms: of its top directory, and of each directory from there to a linked package.
func (m *module) files() ([]string, error) {
	dirs := map[string]bool{m.dir: true}
	for _, p := range m.packages {
		for dir := p; strings.HasPrefix(dir, m.dir+"/"); dir = filepath.Dir(dir) {
			dirs[dir] = true
		}
	}

	var files []string
	for _, dir := range slices.Sorted(maps.Keys(dirs)) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.path, err)
		}
		for _, e := range entries {
			if e.Type().IsRegular() && licenceFile(e.Name()) {
				files = append(files, filepath.Join(dir, e.Name()))
			}
		}
	}
	return files, nil
}

// terms are phrases by which a licence is known, with its SPDX identifier.
var terms = []struct{ phrase, without, id string }{
	{"mozilla public license, version 2.0", "", "MPL-2.0"},
	{"mozilla public license version 2.0", "", "MPL-2.0"},
	{"apache license version 2.0, january 2004", "", "Apache-2.0"},
	{"permission is hereby granted, free of charge, to any person obtaining a copy", "", "MIT"},
	{"permission to use, copy, modify, and/or distribute this software for any purpose", "", "ISC"},
	{"permission to use, copy, modify, and distribute this software for any purpose", "", "ISC"},
	{"redistribution and use in source and binary forms", "neither the name", "BSD-2-Clause"},
	{"neither the name", "", "BSD-3-Clause"},
}

var space = regexp.MustCompile(`\s+`)

// known are the SPDX identifiers of a text. Only a file that adds to a licence, a NOTICE or a grant of patents, may have none.
func known(text string) (ids []string) {
	words := strings.ToLower(space.ReplaceAllString(text, " "))
	for _, t := range terms {
		if strings.Contains(words, t.phrase) && (t.without == "" || !strings.Contains(words, t.without)) && !slices.Contains(ids, t.id) {
			ids = append(ids, t.id)
		}
	}
	return ids
}

// collect gathers the modules' licences, those with the same text as one.
func collect(modules []module) ([]*licence, error) {
	var all []*licence
	same := map[string]*licence{}
	for _, m := range modules {
		files, err := m.files()
		if err != nil {
			return nil, err
		}
		granted := false
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", m.path, err)
			}
			text := strings.TrimRight(strings.ReplaceAll(string(b), "\r\n", "\n"), "\n ")
			name := strings.ToUpper(filepath.Base(file))
			ids := known(text)
			adds := strings.HasPrefix(name, "NOTICE") || strings.HasPrefix(name, "PATENTS") || strings.HasPrefix(name, "COPYRIGHT")
			if len(ids) == 0 && !adds {
				return nil, fmt.Errorf("%s %s: %s is a licence that test/release/notices.go does not know: read it, and name it there if it may be linked", m.path, m.version, file)
			}
			granted = granted || len(ids) > 0

			key := space.ReplaceAllString(text, " ")
			if same[key] == nil {
				same[key] = &licence{ids: ids, text: text}
				all = append(all, same[key])
			}
			if who := m.path + " " + m.version; !slices.Contains(same[key].of, who) {
				same[key].of = append(same[key].of, who)
			}
		}
		if !granted {
			return nil, fmt.Errorf("%s %s has no licence in %s: it may not be linked", m.path, m.version, m.dir)
		}
	}
	return all, nil
}

// expression is all licences as SPDX writes them, ours with them.
func expression(all []*licence) string {
	ids := []string{ours}
	for _, l := range all {
		ids = append(ids, l.ids...)
	}
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), " AND ")
}

// notices writes THIRD_PARTY_NOTICES of the repository at root.
func notices(w io.Writer, root string) error {
	modules, err := linked(root)
	if err != nil {
		return err
	}
	return writeNotices(w, modules)
}

func writeNotices(w io.Writer, modules []module) error {
	all, err := collect(modules)
	if err != nil {
		return err
	}

	var b bytes.Buffer
	fmt.Fprintf(&b, "Licences: %s\n\n", expression(all))
	b.WriteString("mpiup, mpiup-nvml and mpiup-otel are linked with the modules below. mpiup's own licence is in LICENSE. The source of each module, as it is\n" +
		"linked and unchanged, is at https://proxy.golang.org/MODULE/@v/VERSION.zip, and where its path says.\n" +
		"Made by: go test ./test/release -run Notices -update\n")
	for _, l := range all {
		fmt.Fprintf(&b, "\n%s\n", strings.Repeat("=", 80))
		for _, m := range l.of {
			fmt.Fprintf(&b, "%s\n", m)
		}
		if len(l.ids) > 0 {
			fmt.Fprintf(&b, "SPDX: %s\n", strings.Join(l.ids, " AND "))
		}
		fmt.Fprintf(&b, "\n%s\n", l.text)
	}
	_, err = w.Write(b.Bytes())
	return err
}
