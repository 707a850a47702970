package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/need"
)

// TestRanksSeeTheirHost: hwloc in a rank is given its host's topology, which is the one it finds
// by itself, and binding goes as without.
func TestRanksSeeTheirHost(t *testing.T) {
	t.Parallel()
	need.Program(t, "lstopo-no-graphics", "hwloc-nox")
	l := hosted(t)
	const ask = `xml=$(lstopo-no-graphics --of xml - 2>&1)
		echo "given $(echo "$xml" | grep -c '"Creator" value="mpiup"')" "threads $(echo "$xml" | grep -c 'type="PU"')" \
			"bound $(taskset -c 0 hwloc-bind --get) $(hwloc-bind pu:0 -- hwloc-bind --get)"`
	ranks := func(args ...string) []string {
		r := l.run(t, job{hosts: "w0:1,w1:1", args: append(append([]string{"-n", "2"}, args...), "sh", "-c", ask)}).OK(t)
		return strings.Split(strings.TrimSpace(r.Stdout), "\n")
	}
	plain, hinted, own := ranks("--no-topology-hint"), ranks(), ranks("-x", "HWLOC_THISSYSTEM=1")
	if len(plain) != 2 || plain[0] != plain[1] || !strings.HasPrefix(plain[0], "given 0 threads ") {
		t.Fatalf("without: %q", plain)
	}
	for _, line := range hinted {
		if line != "given 1"+strings.TrimPrefix(plain[0], "given 0") {
			t.Errorf("a rank sees %q, without the hint %q", line, plain[0])
		}
	}
	if own[0] != plain[0] {
		t.Errorf("beside the user's own variable: %q", own)
	}
}

const alienCPUs = 256

// alien is the topology of a machine of many CPUs, of which some are here, as hwloc writes it.
func alien() string {
	set := func(in func(cpu int) bool) string { // words of 32 CPUs, the last first
		words := make([]string, alienCPUs/32)
		for w := range words {
			bits := uint32(0)
			for b := range 32 {
				if in(32*w + b) {
					bits |= 1 << b
				}
			}
			words[len(words)-1-w] = fmt.Sprintf("0x%08x", bits)
		}
		return strings.Join(words, ",")
	}
	object := func(kind, name string, index int, cpus, more string) string {
		return fmt.Sprintf(`<object type="%s" os_index="%d" gp_index="%s" cpuset="%s" complete_cpuset="%s" nodeset="0x1" complete_nodeset="0x1"%s`,
			kind, index, name, cpus, cpus, more)
	}
	all := set(func(int) bool { return true })
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?><!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology version="2.0">` + "\n")
	b.WriteString(object("Machine", "1", 0, all, fmt.Sprintf(` allowed_cpuset="%s" allowed_nodeset="0x1">`, all)) + "\n")
	b.WriteString(object("NUMANode", "2", 0, all, ` local_memory="1073741824"/>`) + "\n")
	for cpu := range alienCPUs {
		b.WriteString(object("PU", fmt.Sprint(3+cpu), cpu, set(func(c int) bool { return c == cpu }), "/>") + "\n")
	}
	return b.String() + "</object></topology>\n"
}

// What a rank is told of another machine, of one that had more CPUs, by a file of which a part is
// missing, or by one that is gone does no harm with the variables that mpiup sets beside it: hwloc
// finds no more than the kernel allows, and ranks start. mpiup's own file is none of these.
func TestWrongTopologiesDoNoHarm(t *testing.T) {
	t.Parallel()
	need.Program(t, "lstopo-no-graphics", "hwloc-nox")
	l := hosted(t)
	const threads = `lstopo-no-graphics --of xml - 2>/dev/null | grep -c 'type="PU"'`
	said := func(want int, args ...string) []string {
		r := l.run(t, job{hosts: "w0:1,w1:1", args: append([]string{"-n", "2"}, args...)})
		lines := strings.Split(strings.TrimSpace(r.Stdout), "\n")
		if r.Code != 0 || len(lines) != want {
			t.Fatalf("%q ended with %d, said %q\n%s", args, r.Code, lines, r.Stderr)
		}
		return lines
	}
	plain := said(2, "--no-topology-hint", "sh", "-c", threads)
	given := said(2, "sh", "-c", `[ "$(tail -c 12 "$HWLOC_XMLFILE")" = "</topology>" ] && `+threads)
	if given[0] != plain[0] || given[1] != plain[1] {
		t.Errorf("with mpiup's file %q, without %q", given, plain)
	}
	foreign := alien()
	dir := l.folder(t)
	if got := said(2, "-x", "HWLOC_XMLFILE="+l.file(t, foreign), "sh", "-c", threads); got[0] != fmt.Sprint(alienCPUs) {
		t.Fatalf("of another machine by itself hwloc says %q", got)
	}
	for name, text := range map[string]string{"foreign": foreign, "half": foreign[:len(foreign)/2], "empty": "", "gone": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(dir, name+".xml")
			if name != "gone" {
				if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			told := []string{"-x", "HWLOC_XMLFILE=" + file, "-x", "HWLOC_THISSYSTEM=1", "-x", "HWLOC_THISSYSTEM_ALLOWED_RESOURCES=1"}
			if got := said(2, append(told, "sh", "-c", threads)...); got[0] != plain[0] || got[1] != plain[1] {
				t.Errorf("a rank sees %q, without %q", got, plain)
			}
			said(2, append(told, l.program(t, "hello"))...)
			said(2, append(append(told, ompiFlags...), l.openMPI(t, "hello"))...)
		})
	}
}
