// Program release writes what a release has beside the binaries and follows from them: the shells' completions and the
// manual pages, from the help of the binary itself, so they cannot say anything else than it does.
//
//	mpiup completion bash|zsh|fish ──▶ DIR/completions/mpiup.bash, _mpiup, mpiup.fish
//	mpiup COMMAND --help ──(page)────▶ DIR/man/man1/mpiup.1, mpiup-run.1, …
//
//	sums, a commit ──────────────────▶ an in-toto statement of provenance, on standard output
//
//	release -mpiup bin/mpiup -version v0.1.0 -date 2026-11-23 -out DIR
//	release -provenance FILE -version v0.1.0 -commit HASH
//
// It makes no archives: test/release/release.sh does that.
package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	fs := flag.NewFlagSet("release", flag.ContinueOnError)
	mpiup := fs.String("mpiup", "bin/mpiup", "the binary whose help is read")
	version := fs.String("version", "", "of the release, as v0.1.0")
	date := fs.String("date", "", "of the manual pages, as 2026-11-23")
	out := fs.String("out", "", "directory")
	sums := fs.String("provenance", "", "digests of a release's files and images, as sha256sum writes them; their provenance is written instead")
	of := fs.String("commit", "", "of which the release was built")
	if err := fs.Parse(args); err != nil {
		return err
	}
	if *sums != "" {
		text, err := os.ReadFile(*sums)
		if err != nil {
			return err
		}
		return provenance(os.Stdout, string(text), *version, *of)
	}
	if *out == "" || *version == "" || *date == "" {
		return errors.New("-out, -version and -date are needed")
	}
	if err := completions(*mpiup, filepath.Join(*out, "completions")); err != nil {
		return err
	}
	return manual(*mpiup, footer{*version, *date}, filepath.Join(*out, "man", "man1"))
}

func completions(mpiup, dir string) error {
	for shell, name := range map[string]string{"bash": "mpiup.bash", "zsh": "_mpiup", "fish": "mpiup.fish"} {
		text, err := output(mpiup, "completion", shell)
		if err != nil {
			return err
		}
		if err := write(filepath.Join(dir, name), text); err != nil {
			return err
		}
	}
	return nil
}

// manual writes a page of mpiup and one of each command that its help lists.
func manual(mpiup string, f footer, dir string) error {
	text, err := output(mpiup, "--help")
	if err != nil {
		return err
	}
	about := commands(text)
	if len(about) == 0 {
		return fmt.Errorf("%s --help lists no commands", mpiup)
	}
	if err := write(filepath.Join(dir, "mpiup.1"), page("mpiup", "start MPI jobs inside Kubernetes pods without ssh", text, f)); err != nil {
		return err
	}
	for name, short := range about {
		text, err := output(mpiup, name, "--help", "--all")
		if err != nil {
			return err
		}
		if err := write(filepath.Join(dir, "mpiup-"+name+".1"), page("mpiup-"+name, short, text, f)); err != nil {
			return err
		}
	}
	return nil
}

var listed = regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) +(\S.*)$`)

// commands are those of mpiup's own help, with what it says of each.
func commands(help string) map[string]string {
	_, list, _ := strings.Cut(help, "\nRun:\n") // the first of its groups
	list, _, _ = strings.Cut(list, "\nTopics:\n")
	about := map[string]string{}
	for _, m := range listed.FindAllStringSubmatch(list, -1) {
		about[m[1]] = m[2]
	}
	return about
}

func output(mpiup string, args ...string) (string, error) {
	cmd := exec.Command(mpiup, args...)
	cmd.Env = []string{"PATH=/usr/bin:/bin"}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s", mpiup, strings.Join(args, " "), err, &stderr)
	}
	return string(text), nil
}

func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644)
}
