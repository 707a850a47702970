package pmix_test

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/pmi/pmix/bfrops"
	"github.com/mpiup/mpiup/test/golden"
)

// What libpmix itself says for each call of test/mpi/pmix_ompi.c, and what it is answered, byte for byte.
// -update records it with the libpmix that is there; those of others than Debian 12's were recorded in
// trees of theirs (test/matrix/prepare.sh), with this test built without cgo.
func TestClientDialogues(t *testing.T) {
	if golden.Updating() {
		exe := client(t)
		for _, step := range []string{"names", "events", "misc", "control", "invite"} {
			record(t, exe, step)
		}
	}
	replayAll(t, "testdata/pmix-*.dialogue", replayDialogue)
}

// record runs a step of one rank, or of as many as it takes. Job control is refused here, which ends it.
func record(t *testing.T, exe, step string) {
	j := &trial{hosts: 1, perHost: 1, dialogue: &dialogue{whole: true}}
	if step == "invite" {
		j.perHost = 2
	}
	o := j.run(t, exe, step)
	if step != "control" && !strings.Contains(o.out, "pmix ok") {
		t.Errorf("%s: not recorded: %s", step, o.out)
		return
	}
	h, err := bfrops.ReadHello(bytes.NewReader(unhex(t, strings.Fields(j.dialogue.lines[0])[2])))
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("# libpmix %s, %s: test/mpi/pmix_ompi.c %s\n%s\n", h.Version, h.Codec, step, strings.Join(j.dialogue.lines, "\n"))
	name := fmt.Sprintf("testdata/pmix-%s-%s.dialogue", h.Version, step)
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// again writes a request as it is being read.
type again struct {
	r *bfrops.Reader
	w *bfrops.Writer

	version string // of the client
}

func (a again) one(ts ...bfrops.Type) {
	for _, t := range ts {
		a.w.Group(t, a.r.One(t))
	}
}

// many are a number and, unless it is 0, a group of as many.
func (a again) many(ts ...bfrops.Type) {
	for _, t := range ts {
		bfrops.PutCounted(a.w, t, bfrops.Counted[any](a.r, t))
	}
}

// each are a number and as many groups of one.
func (a again) each(t bfrops.Type) {
	n := bfrops.One[uint64](a.r, bfrops.Size)
	a.w.Group(bfrops.Size, n)
	for range n {
		a.one(t)
	}
}

// rest are groups up to the end.
func (a again) rest(ts ...bfrops.Type) {
	for a.r.More() {
		a.one(ts...)
	}
}

// forms are what follows a request's command.
var forms = map[uint64]func(a again){
	0:  func(again) {},
	1:  func(a again) { a.one(bfrops.Status, bfrops.String); a.many(bfrops.ProcType) },
	2:  func(a again) { a.rest(bfrops.Scope, bfrops.BufferType) },
	3:  func(a again) { a.many(bfrops.ProcType, bfrops.InfoType) },
	4:  func(a again) { a.one(bfrops.String, bfrops.ProcRank); a.many(bfrops.InfoType); a.rest(bfrops.String) },
	5:  func(again) {},
	6:  func(a again) { a.one(bfrops.Uint32); a.many(bfrops.InfoType) },
	7:  func(a again) { a.one(bfrops.Uint32); a.each(bfrops.String); a.many(bfrops.InfoType) },
	8:  func(a again) { a.one(bfrops.Uint32); a.each(bfrops.String); a.many(bfrops.InfoType) },
	9:  func(a again) { a.many(bfrops.InfoType, bfrops.AppType) },
	10: func(a again) { a.many(bfrops.ProcType, bfrops.InfoType) },
	11: func(a again) { a.many(bfrops.ProcType, bfrops.InfoType) },
	12: func(a again) { a.one(bfrops.Status, bfrops.Range); a.many(bfrops.InfoType) },
	13: func(a again) { a.many(bfrops.Status, bfrops.InfoType) },
	14: func(a again) { a.rest(bfrops.Status) },
	15: func(a again) { a.many(bfrops.QueryType) },
	16: func(a again) { a.one(bfrops.Time); a.many(bfrops.InfoType, bfrops.InfoType) },
	18: func(a again) { a.many(bfrops.ProcType, bfrops.InfoType) },
	24: func(a again) { a.one(bfrops.String); a.many(bfrops.ProcType, bfrops.InfoType) },
	27: func(a again) { a.one(bfrops.String); a.many(bfrops.InfoType) },
	28: func(a again) { // libpmix 4 does not name the members
		a.one(bfrops.String)
		if !strings.HasPrefix(a.version, "4") {
			a.many(bfrops.ProcType)
		}
		a.many(bfrops.InfoType)
	},
}

// Every request that a real client sent, in any file here, is written byte for byte as it was read.
func TestRequestsAreWrittenAsTheyWereRead(t *testing.T) {
	seen := map[uint64]bool{}
	check := func(t *testing.T, text string) {
		hellos := map[string]bfrops.Hello{} // by connection
		for line := range strings.Lines(text) {
			f := strings.Fields(line)
			switch { // lines of transcripts become those of a dialogue of one connection
			case f[0] == "#":
				continue
			case f[0] == "hello":
				f = append([]string{"1"}, f...)
			case f[2] == "->":
				f = append([]string{"1", ">"}, f...)
			}
			switch f[1] {
			case "hello":
				h, err := bfrops.ReadHello(bytes.NewReader(unhex(t, f[2])))
				if err != nil {
					t.Fatal(err)
				}
				hellos[f[0]] = h
			case ">":
				seen[rewrite(t, hellos[f[0]], unhex(t, f[3]))] = true
			}
		}
	}
	replayAll(t, "testdata/*.dialogue", check)
	replayAll(t, "testdata/*.transcript", check)
	for number := range forms {
		if !seen[number] && number != 1 {
			t.Errorf("no file has a request of command %d", number)
		}
	}
}

// rewrite checks one request and returns its command.
func rewrite(t *testing.T, h bfrops.Hello, payload []byte) uint64 {
	t.Helper()
	d, err := bfrops.Find(h.Codec)
	if err != nil {
		t.Fatal(err)
	}
	desc := h.Buffer == bfrops.FullyDesc
	a := again{bfrops.NewReader(d, desc, payload), bfrops.NewWriter(d, desc, nil), h.Version}
	number := bfrops.One[uint64](a.r, bfrops.Command)
	a.w.Group(bfrops.Command, number)
	form := forms[number]
	if form == nil {
		t.Errorf("command %d: %x", number, payload)
		return number
	}
	form(a)
	if got, err := a.w.Bytes(); err != nil || a.r.Err() != nil || a.r.More() || !bytes.Equal(got, payload) {
		t.Errorf("libpmix %s, %s, command %d: read %x, written %x; %v, %v, more: %v", h.Version, h.Codec, number, payload, got, a.r.Err(), err, a.r.More())
	}
	return number
}
