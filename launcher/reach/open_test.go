package reach

import (
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
	got := strings.Join(Withheld(list, []Found{lacking("w0", 0, 1), lacking("w1", 0, 2, 2, bad), lacking("w2")}, "ranks"), "\n")
	if want := "set in this session, perhaps for this command, and not so on w0, w1: MODE, TOKEN; ranks get them with -x MODE -x TOKEN\n" +
		"set here, and not so on w0: NCCL_DEBUG; ranks get theirs from their container, or this process's with -x NCCL_DEBUG"; got != want {
		t.Errorf("said is\n%s\nand not\n%s", got, want)
	}
	if lines := Withheld(list, []Found{lacking("w2", 77)}, "ranks"); lines != nil {
		t.Errorf("of nothing is said %q", lines)
	}
	for name, advice := range map[string]string{"a;touch${IFS}pwn": "-x NAME", "$(id)": "-x NAME", "1A": "-x NAME", "_a1": "-x _a1"} {
		lines := Withheld([]typed.Variable{{Text: name + "=1", Since: true}}, []Found{lacking("w0", 0)}, "ranks")
		if len(lines) != 1 || !strings.HasSuffix(lines[0], "ranks get them with "+advice) {
			t.Errorf("of %q is said %q", name, lines)
		}
	}
	for i := range 100 {
		list = append(list, typed.Variable{Text: "V" + string(rune('A'+i%26)) + "=1", Since: true})
	}
	var all []uint32
	for i := range list {
		all = append(all, uint32(i))
	}
	lines := Withheld(list, []Found{lacking("w0", all...), lacking("w1", all...), lacking("w2", all...), lacking("w3", all...), lacking("w4", all...), lacking("w5", all...)}, "ranks")
	if len(lines) != 3 || len(lines[0]) > 400 || !strings.Contains(lines[0], "w3 and 2 more") || lines[2] != "40 variables more of this process were not compared with the hosts'" {
		t.Errorf("said is %q", lines)
	}
	o := NewOpener(&Reach{Unsent: list}).Open()
	if len(o.Marks) != typed.MaxMarks || o.Marks[2].Digest != nil || len(o.Marks[0].Digest) == 0 || strings.Contains(o.String(), "hush") {
		t.Errorf("asked is %v", o)
	}
}
