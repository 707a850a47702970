package reach

import (
	"fmt"
	"strings"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/hostlist"
	"github.com/mpiup/mpiup/internal/typed"
	"github.com/mpiup/mpiup/launcher/hosts"
	"github.com/mpiup/mpiup/launcher/link"
)

func lacking(name string, lacks ...uint32) Found {
	return Found{Wanted: hosts.Wanted{Entry: hostlist.Entry{Name: name}}, Session: &link.Session{Opened: &apiv1.Opened{Lacks: lacks}}}
}

// What hosts lack is said once, with who lacks it, without values, and in few words however much it is.
func TestWithheld(t *testing.T) {
	list := []typed.Variable{{Text: "MODE=x", Since: true}, {Text: "NCCL_DEBUG=hush"}, {Text: "TOKEN=hush", Secret: func() bool { return true }, Since: true}, {Text: "HAD=1", Since: true}}
	const bad = 1 << 31 // an agent may say anything
	got := strings.Join(Withheld(list, []Found{lacking("w0", 0, 1), lacking("w1", 0, 2, 2, bad), lacking("w2")}, "ranks", false), "\n")
	if want := "set in this session, not so on w0, w1: MODE, TOKEN; ranks get them with -x MODE -x TOKEN\n" +
		"set here, not so on w0: NCCL_DEBUG; ranks keep theirs without -x NCCL_DEBUG"; got != want {
		t.Errorf("said is\n%s\nand not\n%s", got, want)
	}
	if lines := Withheld(list, []Found{lacking("w2", 77)}, "ranks", false); lines != nil {
		t.Errorf("of nothing is said %q", lines)
	}
	for name, advice := range map[string]string{"a;touch${IFS}pwn": "-x NAME", "$(id)": "-x NAME", "1A": "-x NAME", "_a1": "-x _a1"} {
		lines := Withheld([]typed.Variable{{Text: name + "=1", Since: true}}, []Found{lacking("w0", 0)}, "ranks", false)
		if len(lines) != 1 || !strings.HasSuffix(lines[0], "ranks get them with "+advice) {
			t.Errorf("of %q is said %q", name, lines)
		}
	}
	for i := range typed.MaxMarks + 36 {
		list = append(list, typed.Variable{Text: "V" + string(rune('A'+i%26)) + "=1", Since: true})
	}
	var all []uint32
	for i := range list {
		all = append(all, uint32(i))
	}
	lines := Withheld(list, []Found{lacking("w0", all...), lacking("w1", all...), lacking("w2", all...), lacking("w3", all...), lacking("w4", all...), lacking("w5", all...)}, "ranks", false)
	if len(lines) != 3 || !strings.HasPrefix(lines[0], "set in this session, not so on w0, w1, w2, w3, w4, w5: MODE, TOKEN, HAD, ") ||
		!strings.HasSuffix(lines[0], " more (-v names all); ranks get them with -x NAME") || lines[2] != "40 variables more of this process were not compared with the hosts'" {
		t.Errorf("said is %q", lines)
	}
	list[3].Presence = true // it is asked for by its name alone
	o := NewOpener(&Reach{Unsent: list}).Open()
	if len(o.Marks) != typed.MaxMarks || o.Marks[2].Digest != nil || o.Marks[3].Digest != nil || len(o.Marks[0].Digest) == 0 || strings.Contains(o.String(), "hush") {
		t.Errorf("asked is %v", o)
	}
}

// A line has 200 columns at most, whatever names and hosts are called, and says what it leaves out; all are named to whoever asks for that.
func TestWithheldIsShort(t *testing.T) {
	for length := 1; length <= 255; length++ {
		for _, n := range []int{1, 2, 3, 64} {
			var list []typed.Variable
			var indices []uint32
			for i := range n {
				name := fmt.Sprintf("%02d", i)
				name = strings.Repeat("V", max(length-len(name), 1)) + name
				list, indices = append(list, typed.Variable{Text: name + "=1", Since: length%2 == 0}), append(indices, uint32(i))
			}
			host := strings.Repeat("h", length)
			found := []Found{lacking(host, indices...), lacking(host+"1", indices...), lacking(host+"2", indices...)}
			line := strings.Join(Withheld(list, found, "commands", false), "\n")
			if len(line) > 200 {
				t.Fatalf("%d columns: %s", len(line), line)
			}
			if named := strings.Count(line, "V0") + strings.Count(line, "V1"); !strings.Contains(line, "-x V") && !strings.Contains(line, "-x NAME") || named < n && n > 1 && !strings.Contains(line, " more (-v names all)") {
				t.Errorf("left out without a word: %s", line)
			}
			whole := strings.Join(Withheld(list, found, "commands", true), "\n")
			for _, v := range list {
				if !strings.Contains(whole, v.Name()) {
					t.Fatalf("%s is not in %s", v.Name(), whole)
				}
			}
		}
	}
}
