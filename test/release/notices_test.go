package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/golden"
)

const root = "../.."

// THIRD_PARTY_NOTICES is that of what is linked: a module that is new, has another version or another licence is missing there.
func TestNoticesAreOfWhatIsLinked(t *testing.T) {
	var made bytes.Buffer
	if err := notices(&made, root); err != nil {
		t.Fatal(err)
	}
	golden.Is(t, filepath.Join(root, noticesFile), made.String())

	modules, err := linked(root)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(made.String(), "\n")
	for _, m := range modules {
		if !slices.Contains(lines, m.path+" "+m.version) {
			t.Errorf("%s does not name %s %s", noticesFile, m.path, m.version)
		}
	}
}

// A module that is new is in the file with all its licences, one that nobody has read is refused by name, and so is one without any.
func TestNoticesOfANewModule(t *testing.T) {
	const mit = "Permission is hereby granted, free of charge, to any person obtaining a copy\nof this software"
	const bsd = "Redistribution and use in source and binary forms, with or without\nmodification"
	for _, tt := range []struct {
		name string
		// files are the module's, by their path in it; its package is in the directory sub.
		files map[string]string
		want  []string
		err   string
	}{
		{"one licence", map[string]string{"LICENSE": mit}, []string{"Licences: Apache-2.0 AND MIT", "example.org/new v1.2.3", "SPDX: MIT"}, ""},
		{"another spelling", map[string]string{"LICENCE.txt": mit}, []string{"SPDX: MIT"}, ""},
		{"one for a licence", map[string]string{"LICENSE-MIT": mit, "LICENSE-BSD.md": bsd}, []string{"Licences: Apache-2.0 AND BSD-2-Clause AND MIT"}, ""},
		{"three clauses", map[string]string{"COPYING": bsd + "\n * Neither the name of"}, []string{"Licences: Apache-2.0 AND BSD-3-Clause"}, ""},
		{"two in one file", map[string]string{"LICENSE": mit + "\n" + bsd}, []string{"SPDX: MIT AND BSD-2-Clause"}, ""},
		{"a package has its own", map[string]string{"LICENSE": mit, "sub/LICENSE": bsd}, []string{"SPDX: MIT", "SPDX: BSD-2-Clause"}, ""},
		{"a package that is not linked", map[string]string{"LICENSE": mit, "other/LICENSE": "All rights reserved."}, []string{"Licences: Apache-2.0 AND MIT\n"}, ""},
		{"a notice", map[string]string{"LICENSE": mit, "NOTICE.txt": "made by somebody"}, []string{"made by somebody"}, ""},
		{"code by such a name", map[string]string{"LICENSE": mit, "license.go": "package sub"}, []string{"Licences: Apache-2.0 AND MIT\n"}, ""},
		{"unknown", map[string]string{"LICENSE": "GNU GENERAL PUBLIC LICENSE"}, nil, "example.org/new v1.2.3: "},
		{"none", map[string]string{"README": mit}, nil, "example.org/new v1.2.3 has no licence"},
		{"a notice alone", map[string]string{"NOTICE": "made by somebody"}, nil, "has no licence"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := module{path: "example.org/new", version: "v1.2.3", dir: t.TempDir()}
			m.packages = []string{filepath.Join(m.dir, "sub")}
			for name, text := range tt.files {
				path := filepath.Join(m.dir, name)
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.MkdirAll(m.packages[0], 0o755); err != nil {
				t.Fatal(err)
			}

			var out bytes.Buffer
			err := writeNotices(&out, []module{m})
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			for _, want := range tt.want {
				if !strings.Contains(out.String(), want) {
					t.Errorf("no %q in\n%s", want, out.String())
				}
			}
		})
	}
}

// All that we give away has both files, and its labels name all licences.
func TestLicencesAreWhereTheBinariesAre(t *testing.T) {
	read := func(path string) string {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	kept := read(noticesFile)
	first, _, _ := strings.Cut(kept, "\n")
	all := strings.TrimPrefix(first, "Licences: ")

	containerfile := read("Containerfile")
	for _, stage := range []string{"openmpi", "mpich", "openmpi-ubi", "mpich-ubi", "mpiup"} {
		_, text, found := strings.Cut(containerfile, " AS "+stage+"\n")
		text, _, _ = strings.Cut(text, "\nFROM ")
		for _, want := range []string{"COPY LICENSE " + noticesFile + " /licenses/\n", `LABEL org.opencontainers.image.licenses="` + all + `"` + "\n"} {
			if !found || !strings.Contains(text, want) {
				t.Errorf("the Containerfile's image %s has no line %q", stage, want)
			}
		}
	}
	for path, wants := range map[string][]string{
		"test/release/release.sh": {"cp LICENSE " + noticesFile + " CHANGELOG.md \"$work/common\""},
		"test/release/image.sh":   {`cp LICENSE ` + noticesFile + ` "$root/licenses/"`, `licences=$(sed -n 's/^Licences: //p' ` + noticesFile + `)`, `"org.opencontainers.image.licenses=$licences"`},
		"test/release/chart.sh":   {`cp LICENSE ` + noticesFile + ` "$2/mpiup/"`},
		"test/release/check.sh":   {noticesFile},
		"test/image/build.sh":     {noticesFile},
	} {
		text := read(path)
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s has no %q", path, want)
			}
		}
	}
}
