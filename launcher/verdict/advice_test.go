package verdict

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/docs"
	"github.com/mpiup/mpiup/internal/job"
)

// Each error of CUDA has advice of its own.
func TestAdviceFollowsTheWords(t *testing.T) {
	for line, want := range map[string]string{
		"RuntimeError: CUDA error: device-side assert triggered":                                                     "device-side assert: ",
		"RuntimeError: CUDA error: an illegal memory access was encountered":                                         "illegal access: ",
		"RuntimeError: CUDA error: no kernel image is available for execution on the device":                         "no kernel image: ",
		"RuntimeError: CUDA error: invalid device ordinal":                                                           "invalid ordinal: ",
		"RuntimeError: CUDA error: unspecified launch failure":                                                       "launch failure: ",
		"RuntimeError: The NVIDIA driver on your system is too old (found version 11040).":                           "old driver: ",
		"RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED":                                                   "cuDNN: ",
		"RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm( handle, opa, opb, m )`": "cuBLAS: ",
		"RuntimeError: No CUDA GPUs are available":                                                                   "no device: ",
		"RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable":                                "busy: ",
	} {
		f, ok := Read(Said{Raised: raised(line)})
		list := Advice(f.Kind, f.Text, false)
		if !ok || f.Kind != GPUError || !strings.HasPrefix(list[0], want) {
			t.Errorf("%s: %s, %q", line, f.Kind, list)
		}
	}
}

// Whoever fails is told what to do, also where there are no pods, and of no vendor's tool alone where the words are not of that vendor.
func TestEveryKindHasAdviceWithoutPods(t *testing.T) {
	for _, a := range Kinds {
		list := Do(a.Kind, "", true)
		if len(list) == 0 && a.Kind != Terminated { // which is said of pods alone
			t.Errorf("nothing to do about %s", a.Kind)
		}
		for _, do := range list {
			for _, word := range []string{"ordon", "pod", "CSI", "kube"} {
				if strings.Contains(strings.ReplaceAll(do, "podPids", ""), word) {
					t.Errorf("%s: %q where there are no pods", a.Kind, do)
				}
			}
		}
	}
	for line, want := range map[string]string{
		"RuntimeError: HIP error: out of resources":                                        "rocm-smi",
		"RuntimeError: HIP error: invalid device function":                                 "no kernel image",
		"RuntimeError: CUDA error: operation not permitted when stream is capturing":       "as the program asks",
		"RuntimeError: CUDA error: initialization error":                                   "spawn",
		"RuntimeError: CUDA error: peer access is not supported between these two devices": "nvidia-smi topo -p2p",
		"RuntimeError: CUDA error: an illegal instruction was encountered":                 "a kernel went wrong",
		"Error 803: system has unsupported display driver / cuda driver combination":       "cuda-compat",
	} {
		if list := Advice(GPUError, line, true); !strings.Contains(strings.ToLower(list[0]), want) {
			t.Errorf("%s: %q", line, list)
		}
	}
}

// A run that ended before it had ranks: who ends the launcher ends no pod where there is none, and too few slots are no wrong word.
func TestEarly(t *testing.T) {
	for _, tt := range []struct {
		code int
		bare bool
		line string
		want Kind
		sig  string
	}{
		{job.ExitPreempted, true, "got SIGTERM in the pause before restart 3, after rank 0 on w0 exited with code 3", Interrupted, "SIGTERM"},
		{job.ExitPreempted, false, "got SIGTERM in the pause before restart 3, after rank 0 on w0 exited with code 3", Terminated, ""},
		{130, true, "got SIGINT in the pause before restart 3, after rank 0 on w0 exited with code 3", Interrupted, "SIGINT"},
		{job.ExitUsage, true, "40 ranks asked for, but the 2 hosts have 4 slots (w0: 2, w1: 2); use -n 4 or less, give more slots, or pass --oversubscribe", Slots, ""},
		{job.ExitUsage, true, "--launcher-timeout 1s: at least 5s", Usage, ""},
	} {
		if v := Early(tt.code, false, []string{tt.line}, Circumstances{Bare: tt.bare}); v.Kind != tt.want || v.Signal != tt.sig {
			t.Errorf("%s: %s by %q, want %s by %q", tt.line, v.Kind, v.Signal, tt.want, tt.sig)
		}
	}
	for _, tt := range []struct {
		code  int
		where Circumstances
		want  Kind
		first string
	}{
		{job.ExitResolve, Circumstances{Away: "pi-worker-0.pi.team.svc"}, NotRunning, "kubectl describe pod pi-worker-0 shows why it does not run"},
		{job.ExitConnect, Circumstances{Away: "pi-node-0-0.pi"}, NotRunning, "kubectl describe pod pi-node-0-0 shows why it does not run"},
		{job.ExitResolve, Circumstances{Away: "$(id)"}, NotRunning, "kubectl describe pod POD shows why it does not run"},
		{job.ExitResolve, Circumstances{Away: "w0", Bare: true}, DNS, ""}, // no pod
		{job.ExitResolve, Circumstances{}, DNS, ""},
		{job.ExitTLS, Circumstances{Away: "w0"}, Identity, ""},
	} {
		v := Early(tt.code, false, []string{"host w0: no such name"}, tt.where)
		if v.Kind != tt.want || tt.first != "" && (len(v.Advice) == 0 || v.Advice[0] != tt.first) {
			t.Errorf("%d, %+v: %s, %q", tt.code, tt.where, v.Kind, v.Advice)
		}
	}
	if v := Early(job.ExitPreempted, true, nil, Circumstances{}); v.Kind != Interrupted || v.Signal != "" {
		t.Errorf("who has no hosts any more: %+v", v)
	}
}

// No line of advice is given whose condition is not in the evidence, of whatever real failure, and none for pods where there are none.
func TestAdviceNeedsItsCondition(t *testing.T) {
	text, err := os.ReadFile("testdata/lines/real.tsv")
	if err != nil {
		t.Fatal(err)
	}
	given := 0
	for line := range strings.Lines(string(text)) {
		cells := strings.SplitN(strings.TrimSpace(line), "\t", 3)
		if len(cells) != 3 || Of(Kind(cells[0])).Title == "" {
			continue
		}
		k, lower := Kind(cells[0]), strings.ToLower(cells[2])
		for _, do := range Do(k, cells[2], false) {
			i := slices.IndexFunc(whens()[k], func(w when) bool { return w.do == do })
			if i >= 0 && !slices.ContainsFunc(whens()[k][i].words, func(w string) bool { return strings.Contains(lower, strings.ToLower(w)) }) {
				t.Errorf("%q is advised for %q", do, cells[2])
			}
			given += max(0, min(i+1, 1))
		}
		for _, do := range Do(k, cells[2], true) {
			if strings.Contains(do, "kubectl") || strings.Contains(do, "resources.limits") || strings.Contains(do, "Pod") {
				t.Errorf("%q where there are no pods", do)
			}
		}
	}
	if given < 10 {
		t.Errorf("only %d lines had advice of their own", given)
	}
	rows := 0
	for k, list := range whens() {
		rows += len(list)
		for _, w := range list {
			if Of(k).Title == "" && k != "kind" || slices.Contains(w.words, "") || w.do == "" {
				t.Errorf("%s: %+v", k, w)
			}
		}
	}
	if rows != strings.Count(docs.Advice, "\n") {
		t.Errorf("%d rows of docs/data/advice.tsv are read", rows)
	}
}
