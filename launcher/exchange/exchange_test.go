package exchange

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiv1 "github.com/mpiup/mpiup/internal/api/v1"
	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/cost"
	"github.com/mpiup/mpiup/test/golden"
)

// The scripts in testdata: lines are events, and what the exchange sends in answer follows each
// with "> ". "ranks 0 0 1 1" gives the host of each rank of the first job, "spawn 1 2" those of
// the next.
func TestScripts(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txt")
	if len(files) == 0 {
		t.Fatal("no scripts")
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			script, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			golden.Is(t, file, play(t, string(script)))
		})
	}
}

func play(t *testing.T, script string) string {
	var out strings.Builder
	var x *Exchange
	hosts := 0
	send := func(host int, f *apiv1.Frame) { fmt.Fprintf(&out, "> %d %s\n", host, show(f)) }
	for sc := bufio.NewScanner(strings.NewReader(script)); sc.Scan(); {
		line := sc.Text()
		if strings.HasPrefix(line, ">") {
			continue
		}
		fmt.Fprintln(&out, line)
		f := strings.Fields(line)
		if len(f) == 0 || f[0] == "#" {
			continue
		}
		num := func(i int) int {
			var n int
			if i < len(f) {
				if _, err := fmt.Sscan(f[i], &n); err != nil {
					t.Fatalf("%s: %v", line, err)
				}
			}
			return n
		}
		switch f[0] {
		case "ranks", "spawn":
			if f[0] == "ranks" {
				x, hosts = New(0, send), 0
			}
			var hostOf []int
			for i := range f[1:] {
				hostOf = append(hostOf, num(i+1))
				hosts = max(hosts, num(i+1)+1)
			}
			grow(x, hosts, hostOf)
		case "enter": // host set epoch data
			data := f[4]
			if data == "-" {
				data = ""
			}
			wired, err := x.Enter(num(1), &apiv1.FenceEnter{Set: f[2], Epoch: uint64(num(3)), Data: []byte(data), Collect: len(f) < 6})
			if wired {
				fmt.Fprintln(&out, "> wired")
			}
			if err != nil {
				fmt.Fprintln(&out, "> error", err)
			}
		case "over":
			x.Over(num(1), "rank "+f[1]+" exited")
		case "gone":
			x.HostGone(num(1))
		case "publish":
			x.Name(num(1), &apiv1.NameRequest{Id: uint64(num(2)), Op: apiv1.NameOp_NAME_PUBLISH, Service: f[3], Value: []byte(f[4])})
		case "lookup":
			x.Name(num(1), &apiv1.NameRequest{Id: uint64(num(2)), Op: apiv1.NameOp_NAME_LOOKUP, Service: f[3]})
		case "unpublish":
			x.Name(num(1), &apiv1.NameRequest{Id: uint64(num(2)), Op: apiv1.NameOp_NAME_UNPUBLISH, Service: f[3]})
		case "watch": // host id since service...
			x.Name(num(1), &apiv1.NameRequest{Id: uint64(num(2)), Op: apiv1.NameOp_NAME_WATCH, Since: uint64(num(3)), Services: f[4:]})
		case "unwatch":
			x.Name(num(1), &apiv1.NameRequest{Id: uint64(num(2)), Op: apiv1.NameOp_NAME_UNWATCH})
		case "watched":
			fmt.Fprintf(&out, "> %d bytes, %d questions\n", x.watches.size, len(x.watches.services))
		case "fetch": // host id owner|any key [job]
			m := &apiv1.FetchRequest{Id: uint64(num(2)), Key: f[4], AnyOwner: f[3] == "any", Job: uint32(num(5))}
			if !m.AnyOwner {
				m.Owner = uint32(num(3))
			}
			x.Fetch(num(1), m)
		case "answer": // host id [value]
			m := &apiv1.FetchResult{Id: uint64(num(2)), Found: len(f) > 3}
			if m.Found {
				m.Value = []byte(f[3])
			}
			x.Answered(num(1), m)
		default:
			t.Fatalf("unknown event %q", line)
		}
	}
	return out.String()
}

func show(f *apiv1.Frame) string {
	switch b := f.Body.(type) {
	case *apiv1.Frame_FenceResult:
		r := b.FenceResult
		if r.Error != "" {
			return fmt.Sprintf("fence %s/%d error: %s", r.Set, r.Epoch, r.Error)
		}
		return fmt.Sprintf("fence %s/%d %s", r.Set, r.Epoch, r.Data)
	case *apiv1.Frame_NameResult:
		now := ""
		if b.NameResult.Now > 0 {
			now = fmt.Sprintf("now=%d", b.NameResult.Now)
		}
		return fmt.Sprintf("name %d found=%v %s %s%s", b.NameResult.Id, b.NameResult.Found, b.NameResult.Value, b.NameResult.Error, now)
	case *apiv1.Frame_FetchRequest:
		job := ""
		if b.FetchRequest.Job > 0 {
			job = fmt.Sprintf(" job=%d", b.FetchRequest.Job)
		}
		return fmt.Sprintf("fetch? %d owner=%d any=%v %s%s", b.FetchRequest.Id, b.FetchRequest.Owner, b.FetchRequest.AnyOwner, b.FetchRequest.Key, job)
	case *apiv1.Frame_FetchResult:
		return fmt.Sprintf("fetched %d found=%v %s %s", b.FetchResult.Id, b.FetchResult.Found, b.FetchResult.Value, b.FetchResult.Error)
	}
	return fmt.Sprint(f)
}

// A fence's bytes to all hosts are at most hosts x data, and each host gets each contribution
// once, however many hosts there are.
func TestFenceBytes(t *testing.T) {
	const n, size = 64, 1000
	hostOf := make([]int, n*8)
	for r := range hostOf {
		hostOf[r] = r / 8
	}
	got := make([]int, n)
	x := New(0, func(host int, f *apiv1.Frame) {
		seen := map[string]bool{}
		for _, d := range f.GetFenceResult().Data {
			if seen[string(d)] {
				t.Errorf("host %d gets a contribution twice", host)
			}
			seen[string(d)] = true
			got[host] += len(d)
		}
	})
	grow(x, n, hostOf)
	for i := range n {
		if _, err := x.Enter(i, &apiv1.FenceEnter{Set: "0-511", Epoch: 1, Data: fmt.Appendf(nil, "%*d", size, i), Collect: true}); err != nil {
			t.Fatal(err)
		}
	}
	for host, b := range got {
		if b != (n-1)*size {
			t.Errorf("host %d got %d bytes, want %d", host, b, (n-1)*size)
		}
	}
}

func FuzzSet(f *testing.F) {
	for _, s := range []string{"0-3", "0,2", "0,4", "0-3#7", "#", "", "9", "3-1", "0-99999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, set string) {
		defer cost.Watch(t, cost.Parser, len(set))()
		x := New(0, func(int, *apiv1.Frame) {})
		grow(x, 2, []int{0, 0, 1, 1})
		grow(x, 2, []int{1})
		for i := range 2 {
			_, _ = x.Enter(i, &apiv1.FenceEnter{Set: set, Data: []byte("x")})
		}
		if len(x.fences) > 1 {
			t.Errorf("%d fences of one set", len(x.fences))
		}
	})
}

// grow adds a job to a run of so many hosts.
func grow(x *Exchange, hosts int, hostOf []int) {
	who, plan, all := x.who, &job.Plan{}, []int(nil)
	for who.Hosts() < hosts {
		who = who.Join()
	}
	for i := range hosts {
		all = append(all, i)
	}
	for _, h := range hostOf {
		plan.Placements = append(plan.Placements, job.Placement{Host: h})
	}
	x.Know(who.Grow(plan, all))
}
