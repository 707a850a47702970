package integration

import (
	"strings"
	"testing"
)

// A program and files that only the launcher has run and are read on the workers, and nothing of them
// stays there.
func TestPreload(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	l.called(t, "mpirun", job{}, "--version") // makes the link
	const script = `set -e
dir=$(mktemp -d)
cd "$dir"
mkdir -p data
printf '#!/bin/sh\necho "$(hostname) $(cat data/x) $(ls -l a.out | cut -c1-10) $(cat "$1" 2>/dev/null)" "$(wc -c <big)"\n' >a.out
chmod 750 a.out
echo x1 >data/x
echo abs >abs
head -c 20000000 /dev/urandom >big
shift 0
case $1 in
run) exec ` + "\"$MPIUP\"" + ` run --host w0:2,w1 -n 3 --preload-binary --preload-files data/x,big,"$dir"/abs ./a.out "$dir"/abs ;;
*) exec "$@" -H w0:2,w1 -np 3 --preload-binary --preload-files data/x,big ./a.out ;;
esac`
	env := []string{"MPIUP_KEY=" + l.key, "MPIUP=" + l.bin}
	r := l.command(t, job{env: env}, "sh", "-c", script, "sh", strings.TrimSuffix(l.key, "key")+"mpirun").Wait(t)
	if want := "w0 x1 -rwxr-x---  20000000\nw0 x1 -rwxr-x---  20000000\nw1 x1 -rwxr-x---  20000000\n"; r.Code != 0 || inOrder(r.Stdout) != want {
		t.Errorf("mpirun ended with %d\n%s%s", r.Code, r.Stdout, r.Stderr)
	}
	r = l.command(t, job{env: env}, "sh", "-c", script, "sh", "run").Wait(t)
	r.Fails(t, 246, "/abs cannot be copied to /tmp/", "is not there: make it")
	for _, host := range []string{"w0", "w1"} {
		if r := l.exec(t, job{}, host, "--", "sh", "-c", "find /tmp/mpiup-0 -name big -o -name a.out").Wait(t); r.Code != 0 || r.Stdout != "" {
			t.Errorf("left on %s: %s%s", host, r.Stdout, r.Stderr)
		}
	}
}

// An absolute path is a place on the hosts, with the launcher's own among them, whose file is its own.
func TestPreloadToAPlace(t *testing.T) {
	t.Parallel()
	l := hosted(t)
	const script = `set -e
f=$(mktemp /tmp/preload-XXXXXX)
echo text >$f
"$0" run --host w0,w1 -N 1 --preload-files $f sh -c 'cat $0; echo $0' $f
"$0" run --local -n 1 --preload-files $f cat $f
cat $f`
	r := l.command(t, job{env: []string{"MPIUP_KEY=" + l.key}}, "sh", "-c", script, l.bin).Wait(t)
	lines := strings.Fields(r.Stdout)
	if r.Code != 0 || strings.Count(r.Stdout, "text\n") != 4 || len(lines) != 6 {
		t.Fatalf("ended with %d: %s%s", r.Code, r.Stdout, r.Stderr)
	}
	for _, path := range lines {
		if path == "text" {
			continue
		}
		for _, host := range []string{"w0", "w1"} {
			l.exec(t, job{}, host, "--", "test", "-e", path).Wait(t).Fails(t, 1)
		}
	}
}
