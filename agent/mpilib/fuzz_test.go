package mpilib

import (
	"strings"
	"testing"
	"time"

	"github.com/mpiup/mpiup/agent/mpilib/script"
	"github.com/mpiup/mpiup/test/cost"
)

// bounded looks at a command and fails the test where that took more than a look may, by what it counts and not by a clock.
func bounded(t *testing.T, files tree, argv ...string) {
	vars := parseEnv([]string{"PATH=/bin:/usr/bin", "LD_LIBRARY_PATH=/lib"})
	k := &look{files: newFiles(files.fs(), time.Now().Add(time.Hour))}
	asked := command{Argv: argv, Env: script.EnvOf((&asked{vars: vars, seen: map[string]string{}}).lookup), Dir: "/work"}
	c := k.choose(asked, k.command(asked, 0))
	k.within(t)
	if c.Protocol != PMI1 && c.Protocol != PMIx || c.Why == "" || len(c.Library) > 1000 || len(c.Why) > 2000 || strings.ContainsAny(c.Why+c.Library, "\n\x1b") {
		t.Errorf("chose %+v", c)
	}
}

// FuzzELF takes any bytes for a program, for a library, and for the loader's cache.
func FuzzELF(f *testing.F) {
	for _, m := range []image{program("libmpi.so.40"), ompi4, ompi5, mpich5, {rpath: "$ORIGIN", runpath: "/x", golang: true}} {
		f.Add(m.bytes(), ompi4.bytes(), ldCacheOf("/lib/libmpi.so.40"))
		f.Add(program("libmpi.so.40").bytes(), m.bytes(), []byte(ldCacheMagic))
	}
	f.Fuzz(func(t *testing.T, exe, library, cache []byte) {
		defer cost.Watch(t, budget, 0)()
		bounded(t, tree{"work/a.out": string(exe), "lib/libmpi.so.40": library, "etc/ld.so.cache": cache}, "./a.out")
	})
}

// FuzzScript takes any text for a script, and for one that it may read.
func FuzzScript(f *testing.F) {
	f.Add("exec \"$@\" ${X:-$(dirname $0)} <<EOF\n./mpich\nEOF\n", "A=`which x` B=$((1)) # c")
	f.Add("if [ a ]; then . ./env.sh; eval \"./ompi 'a' \\\"b\\\" $1\"; fi", "export PATH=/work:$PATH; cd $(cd /; pwd)")
	f.Add("${${${ $($($( \"'`", "source ./run.sh; source ./env.sh")
	f.Fuzz(func(t *testing.T, text, sourced string) {
		defer cost.Watch(t, cost.Bound{Fixed: 2 * budget.Fixed}, 0)() // two looks
		bounded(t, both.with(tree{"work/run.sh": "#!/bin/sh\n" + text, "work/env.sh": sourced}), "./run.sh", "./ompi", "b")
		bounded(t, both.with(tree{"work/env.sh": sourced}), "sh", "-c", text, "a", "./mpich")
	})
}

// FuzzCommand takes any words for a command.
func FuzzCommand(f *testing.F) {
	f.Add("env -u A -S ./ompi", "")
	f.Add("python3 -X a -m mpi4py", "home = /\n")
	f.Add("conda run -n x -p y --cwd / ./mpich", "a")
	f.Fuzz(func(t *testing.T, words, cfg string) {
		defer cost.Watch(t, budget, 0)()
		argv := strings.Fields(words)
		if len(argv) > 0 {
			bounded(t, both.with(tree{"usr/bin/pyvenv.cfg": cfg, "usr/bin/conda": program()}), argv...)
		}
	})
}
