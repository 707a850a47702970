package flight

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/mpiup/mpiup/test/cost"
)

func dump(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestParse(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{"gloo-2.15-rank_0", `0 default_pg "" 4: [4 gloo:all_reduce [5] Float true ]; 1  "" 1: [1 gloo:all_reduce [3] Float true ]`},
		{"gloo-2.15-rank_2", `0 default_pg "" 3: [3 gloo:all_reduce [8, 2] Float true ]`},
		{"nccl-2.4-rank_0", `0 default_pg "0-3" 7: [6 nccl:all_reduce [512, 8] Float true train.py:31 step] [7 nccl:all_reduce [512, 8] Float false train.py:31 step]`},
		{"nccl-2.4-rank_2", `0 default_pg "0-3" 6: [6 nccl:all_reduce [512, 8] Float true train.py:31 step]`},
		{"python-4", `0 default_pg "0-3" 7: [6 nccl:all_reduce [512, 8] Float true train.py:31 step] [7 nccl:all_reduce [512, 8] Float false train.py:31 step]`},
	} {
		r, err := Parse(0, dump(t, c.file))
		if err != nil {
			t.Fatal(err)
		}
		var groups []string
		for _, g := range r.Groups {
			text := fmt.Sprintf("%s %s %q %d:", g.Name, g.What, g.Ranks, g.Last)
			for _, o := range g.Ops {
				text += fmt.Sprintf(" [%d %s %s %v %s]", o.Seq, o.Name, o.Shape, o.Done, o.Where)
			}
			groups = append(groups, text)
		}
		if got := strings.Join(groups, "; "); got != c.want {
			t.Errorf("%s is\n%s, want\n%s", c.file, got, c.want)
		}
	}
	for _, bad := range []string{"", "N.", "}.", "](."} {
		if _, err := Parse(0, []byte(bad)); err == nil {
			t.Errorf("%q is a dump", bad)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, name := range []string{"gloo-2.15-rank_0", "nccl-2.4-rank_0"} {
		f.Add(dump(f, name))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		defer cost.Watch(t, cost.Parser, len(in))()
		r, err := Parse(1, in)
		if err != nil {
			return
		}
		if len(r.Groups) > maxGroups {
			t.Errorf("%d groups", len(r.Groups))
		}
		for _, g := range r.Groups {
			if len(g.Ops) > maxOpen+1 {
				t.Errorf("%d operations", len(g.Ops))
			}
		}
	})
}

// Dumps are told of once, and again when they are written anew; what is no dump is none.
func TestNews(t *testing.T) {
	r, err := New(filepath.Join(t.TempDir(), "flight-0"))
	if err != nil {
		t.Fatal(err)
	}
	put := func(name, file string) {
		if err := os.WriteFile(r.Prefix()+name, dump(t, file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ranks := func() string {
		var list []int
		for _, rec := range r.News() {
			list = append(list, rec.Rank)
		}
		return fmt.Sprint(list)
	}
	put("0", "nccl-2.4-rank_0")
	put("2", "nccl-2.4-rank_2")
	put("x", "nccl-2.4-rank_0")
	put("99999999", "nccl-2.4-rank_0")
	if err := os.Symlink(r.Prefix()+"0", r.Prefix()+"5"); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(r.Prefix()+"6", 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.Prefix()+"7", dump(t, "nccl-2.4-rank_0")[:100], 0o600); err != nil { // it is being written
		t.Fatal(err)
	}
	if got := ranks(); got != "[0 2]" {
		t.Errorf("news of %s", got)
	}
	put("7", "nccl-2.4-rank_0")
	put("2", "nccl-2.4-other")
	if got := ranks(); got != "[2 7]" {
		t.Errorf("then news of %s", got)
	}
	if got := ranks(); got != "[]" {
		t.Errorf("then news of %s", got)
	}
	r.Remove()
	if got := ranks(); got != "[]" {
		t.Errorf("news of %s in a directory that is gone", got)
	}
}

// A process that reads its pipe, as torch does, is asked; one that does not read costs no more than the time that is given.
func TestAsk(t *testing.T) {
	r, err := New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	text := dump(t, "nccl-2.4-rank_2")
	pipe := func(name string) string {
		path := r.Pipe() + name + ".pipe"
		if err := syscall.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	torch, err := os.OpenFile(pipe("2"), os.O_RDWR|syscall.O_NONBLOCK, 0) // to write, too: else it is at its end before somebody asks
	if err != nil {
		t.Fatal(err)
	}
	defer torch.Close()
	pipe("3") // whose process has ended
	done := make(chan error, 1)
	go func() {
		var b [8]byte
		_, err := torch.Read(b[:])
		if err == nil {
			err = os.WriteFile(r.Prefix()+"2", text, 0o600)
		}
		done <- err
	}()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	got := r.Ask(ctx)
	if err := <-done; err != nil || len(got) != 1 || got[0].Rank != 2 {
		t.Errorf("%v, %v", got, err)
	}
	deaf, err := os.OpenFile(pipe("4"), os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if got := r.Ask(over); len(got) != 0 {
		t.Errorf("%v", got)
	}
}
