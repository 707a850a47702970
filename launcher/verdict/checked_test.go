package verdict

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mpiup/mpiup/internal/job"
	"github.com/mpiup/mpiup/test/cost"
)

// fill sets every exported field below v: texts to text, numbers to number, lists to so many elements.
func fill(v reflect.Value, text string, number int64, elements int) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int:
		v.SetInt(number)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text, number, elements)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), elements, elements))
		for i := range elements {
			fill(v.Index(i), text, number, elements)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), text, number, elements)
			}
		}
	}
}

// Whatever stands in the fields of a verdict that somebody made up, no command, no name and no number of it is taken that no run can have
// written, no sentence of it stands where sentences of this build do, and no more than a bound of its text is kept.
func TestMadeUpVerdictIsChecked(t *testing.T) {
	for _, text := range []string{"x; kubectl delete node --all", "kubectl delete node --all", "$(restart)", "`id`", "a\nb", "\x1b[2J", "../../etc", strings.Repeat("9", 1<<20)} {
		var v Verdict
		fill(reflect.ValueOf(&v).Elem(), text, -1, 300)
		v.Kind = GPUFault
		got, err := v.Checked()
		if err != nil {
			t.Fatal(err)
		}

		for name, s := range map[string]string{"phase": got.Phase, "host": got.Host, "pod": got.Pod, "node": got.Node, "signal": got.Signal,
			"errno": got.Errno, "gpu": got.GPU, "pci": got.PCI, "hca": got.HCA, "cordon": got.Cordon, "confidence": string(got.Confidence), "ranks": got.Ranks, "reporters": got.Reporters} {
			if s != "" && text != "../../etc" || len(s) > 64 {
				t.Errorf("the %s %.80q stays", name, s)
			}
		}
		if got.Host != "" || got.Cordon != "" || got.Rank != nil || got.Job < 0 || got.PID < 0 || len(got.Absent) > 0 {
			t.Errorf("of %.40q %+v stays", text, got)
		}
		for _, s := range got.Stacks {
			if s.Ranks != "" || len(s.Hosts) > 0 || s.PID < 0 || s.Means != "" {
				t.Errorf("of %.40q the stack %+v stays", text, s)
			}
		}
		whole, err := json.Marshal(got)
		if err != nil || len(whole) > 8*maxRead {
			t.Errorf("of %.40q %d bytes stay, %v", text, len(whole), err)
		}
		got.Stderr, got.Frames, got.Stacks, got.Claims = nil, nil, nil, nil // which quote the rank, its functions, and the file
		if whole, err := json.Marshal(got); err != nil || strings.Contains(string(whole), "kubectl delete") || strings.Contains(string(whole), "restart)") {
			t.Errorf("of %.40q there stays %s, %v", text, whole, err)
		}
	}
}

func TestMadeUpKindsAreNone(t *testing.T) {
	for _, kind := range []string{"", "kubectl-delete-node", "GPU-FAULT", "gpu-fault\n"} {
		if _, err := (Verdict{Kind: Kind(kind)}).Checked(); !errors.Is(err, ErrKind) {
			t.Errorf("%q: %v", kind, err)
		}
	}
}

// The names and numbers of a verdict as a run writes it stay as they are; its sentences are made anew, and are there for who believes them.
func TestOwnVerdictStays(t *testing.T) {
	three := 3
	v := Verdict{Kind: "gpu-fault", Phase: "running", Rank: &three, Host: "w1.job", Pod: "w1", Node: "node-a", PID: 4711, Signal: "SIGKILL", Errno: "ENOENT",
		GPU: "GPU-0000000c", PCI: "0000:17:00.0", HCA: "mlx5_0:1", Cordon: "kubectl cordon node-a", ExitCode: 137, Restarts: 1,
		Evidence: []string{"what happened"}, Advice: []string{"what to do"}, Others: []string{"more"}, Stderr: []string{"a line"}, Frames: []string{"main (a.c:1)"},
		Absent:     []job.Absentee{{Rank: 2, Name: "rank 2", Host: "w1", PID: 12, Why: "it has not come"}},
		Stacks:     []job.Stack{{Ranks: "0-1,3", Count: 3, Of: 4, Hosts: []string{"w0"}, PID: 11, Means: "eu-stack", Frames: []string{"poll"}}},
		Confidence: Probable, Ranks: "0-3,7", Reporters: "1", Why: "by its own words"}
	got, err := v.Checked()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(v, got.Believed(), cmpopts.IgnoreUnexported(Verdict{})); diff != "" {
		t.Error(diff)
	}
	if got.Advice[0] != Advice(GPUFault, "", false)[0] || got.Others != nil || got.Why != "" || got.Evidence[0] == "what happened" ||
		got.Absent[0].Why == "it has not come" {
		t.Errorf("sentences of the file stay: %+v", got)
	}
}

// What happened is told by a run's own sentence where its numbers give one, without what it quotes.
func TestSentencesAreMadeAnew(t *testing.T) {
	three := 3
	for _, tt := range []struct {
		is   Verdict
		want string
	}{
		{Verdict{Kind: ExitCode, Rank: &three, Host: "w1", ExitCode: 7, Evidence: []string{"rank 3 on w1 exited with code 7: reboot"}}, "rank 3 on w1 exited with code 7"},
		{Verdict{Kind: Killed, Rank: &three, Host: "w1", Signal: "SIGKILL", ExitCode: 137, Evidence: []string{"rank 3 on w1 was killed by signal 9 (SIGKILL), core dumped; x"}},
			"rank 3 on w1 was killed by signal 9 (SIGKILL), core dumped"},
		{Verdict{Kind: Abort, Rank: &three, Host: "w1", ExitCode: 5, Evidence: []string{"rank 3 on w1 called MPI_Abort with code 5"}}, "rank 3 on w1 called MPI_Abort with code 5"},
		{Verdict{Kind: ExitCode, Rank: &three, Host: "w1", ExitCode: 7, Evidence: []string{"rank 9 on w1 exited with code 7"}}, "rank 3 on w1: " + Of(ExitCode).Title + ", exit code 7"},
		{Verdict{Kind: AgentLost, Host: "w1", ExitCode: 250}, "w1: " + Of(AgentLost).Title + ", exit code 250"},
		{Verdict{Kind: Slots}, Of(Slots).Title},
	} {
		got, err := tt.is.Checked()
		if err != nil || len(got.Evidence) != 1 || got.Evidence[0] != tt.want {
			t.Errorf("%q, want %q, %v", got.Evidence, tt.want, err)
		}
	}
}

func TestFramesAreFunctions(t *testing.T) {
	for text, is := range map[string]bool{
		"main": true, "main (a.c:12)": true, "std::vector<int, std::allocator<int> >::push_back(int const&) (x.cc:3)": true, "??": true, "forward (train.py:33)": true,
		"kubectl delete node --all": false, "": false, "x;reboot": false, "a\nb": false, "`id`": false,
	} {
		if notFrame(text) == is {
			t.Errorf("%q is a frame: %t", text, !is)
		}
	}
}

// FuzzParse: no text makes it fail other than by an error, and what it finds is bounded and has no sentence of its file.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"kind":"gpu-fault","rank":3,"host":"w1","evidence":["rank 3 on w1 exited with code 1: x"],"cordon":"kubectl delete node --all"}`))
	f.Add([]byte(`{"kind":"stalled","stacks":[{"ranks":"0-3","frames":["main (a.c:1)"]}],"absent":[{"rank":2,"name":"torch's rank 2"}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		cost.AtMost(t, cost.Bound{Fixed: 4 << 20, PerByte: 256}, len(text), func() {
			v, err := Parse(text)
			if err != nil {
				return
			}
			if len(v.Evidence) != 1 || v.Others != nil || v.Why != "" || strings.ContainsAny(v.Cordon, ";&|$`\n") {
				t.Errorf("%+v", v)
			}
		})
	})
}
