package checkup

import (
	"regexp"
	"testing"

	"github.com/mpiup/mpiup/rdma"
)

// Outside Kubernetes no advice names what only a pod has; in a pod each stays as it is.
func TestHere(t *testing.T) {
	ofPods := regexp.MustCompile(`resources\.limits|securityContext|emptyDir|\b[Pp]ods?\b|kubectl|device plugin|container runtime`)
	pod := []string{"KUBERNETES_SERVICE_HOST=10.96.0.1"}
	seen := 0
	for _, root := range []bool{true, false} {
		h := Host{Root: root, Ranks: 4, CPUs: 1, HugePages: 8, HugePageLimit: "0", PtraceScope: 1, HCAs: rdma.Inventory{HCAs: make([]rdma.HCA, 1)}}
		for _, f := range Look(&h) {
			for _, text := range []string{f.Text, f.Fix} {
				if Here(pod, text) != text {
					t.Errorf("%s: in a pod %q", f.Name, Here(pod, text))
				}
				if said := ofPods.FindString(Here(nil, text)); said != "" {
					t.Errorf("%s: %q outside: %s", f.Name, said, Here(nil, text))
				}
				if ofPods.MatchString(text) {
					seen++
				}
			}
		}
	}
	for _, room := range []Room{{Ranks: 1}, {Ranks: 2, ShmSize: 1}, {Ranks: 1, ShmSize: 1 << 30}} {
		if _, text := room.Lacking(); ofPods.MatchString(Here(nil, text)) || Here(pod, text) != text {
			t.Errorf("%s", Here(nil, text))
		}
	}
	if seen < 6 {
		t.Errorf("only %d texts speak of pods", seen)
	}
}
