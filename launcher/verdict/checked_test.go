package verdict

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/mpiup/mpiup/internal/job"
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
// written, and no more than a bound of its text.
func TestMadeUpVerdictIsChecked(t *testing.T) {
	for _, text := range []string{"x; kubectl delete node --all", "$(reboot)", "`id`", "a\nb", "\x1b[2J", "../../etc", strings.Repeat("9", 1<<20)} {
		var v Verdict
		fill(reflect.ValueOf(&v).Elem(), text, -1, 300)
		got := v.Checked()

		for name, s := range map[string]string{"kind": string(got.Kind), "phase": got.Phase, "host": got.Host, "pod": got.Pod, "node": got.Node, "signal": got.Signal,
			"errno": got.Errno, "gpu": got.GPU, "pci": got.PCI, "hca": got.HCA, "cordon": got.Cordon, "confidence": string(got.Confidence), "ranks": got.Ranks, "reporters": got.Reporters} {
			if s != "" && text != "../../etc" || len(s) > 64 {
				t.Errorf("the %s %.80q stays", name, s)
			}
		}
		if got.Host != "" || got.Cordon != "" || got.Rank != nil || got.Job < 0 || got.PID < 0 || len(got.Absent) > 0 {
			t.Errorf("of %.40q %+v stays", text, got)
		}
		for _, s := range got.Stacks {
			if s.Ranks != "" || len(s.Hosts) > 0 || s.PID < 0 {
				t.Errorf("of %.40q the stack %+v stays", text, s)
			}
		}
		whole, err := json.Marshal(got)
		if err != nil || len(whole) > 8*maxRead {
			t.Errorf("of %.40q %d bytes stay, %v", text, len(whole), err)
		}
	}
}

// A verdict as a run writes it stays as it is.
func TestOwnVerdictStays(t *testing.T) {
	three := 3
	v := Verdict{Kind: "gpu-fault", Phase: "running", Rank: &three, Host: "w1.job", Pod: "w1", Node: "node-a", PID: 4711, Signal: "SIGKILL", Errno: "ENOENT",
		GPU: "GPU-0000000c", PCI: "0000:17:00.0", HCA: "mlx5_0:1", Cordon: "kubectl cordon node-a", ExitCode: 137, Restarts: 1,
		Evidence: []string{"what happened"}, Advice: []string{"what to do"}, Others: []string{"more"}, Stderr: []string{"a line"}, Frames: []string{"main (a.c:1)"},
		Absent:     []job.Absentee{{Rank: 2, Name: "rank 2", Host: "w1", PID: 12, Why: "it has not come"}},
		Stacks:     []job.Stack{{Ranks: "0-1,3", Count: 3, Of: 4, Hosts: []string{"w0"}, PID: 11, Means: "eu-stack", Frames: []string{"poll"}}},
		Confidence: Probable, Ranks: "0-3,7", Reporters: "1", Why: "by its own words"}
	if diff := cmp.Diff(v, v.Checked(), cmpopts.IgnoreUnexported(Verdict{})); diff != "" {
		t.Error(diff)
	}
}
