package contract

import (
	"os"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// monitor is what of a PodMonitor joins it with pods.
type monitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		NamespaceSelector   map[string]any       `json:"namespaceSelector"`
		Selector            metav1.LabelSelector `json:"selector"`
		PodMetricsEndpoints []struct {
			Port        string           `json:"port"`
			Interval    string           `json:"interval"`
			Relabelings []map[string]any `json:"relabelings"`
		} `json:"podMetricsEndpoints"`
	} `json:"spec"`
}

// Each pod that we ship is of one monitor, which scrapes the ports that the pod declares and in which it serves. The drop-in declares none.
func TestMonitorsAndManifestsFit(t *testing.T) {
	var monitors []*monitor
	for _, doc := range example(t, "monitoring/podmonitor.yaml") {
		m := decode[monitor](t, doc)
		for _, e := range m.Spec.PodMetricsEndpoints {
			if labels := e.Relabelings; len(labels) != 2 || labels[0]["targetLabel"] != "mpijob" || labels[1]["targetLabel"] != "instance" {
				t.Errorf("%s, %s: its series do not get the labels of the rules and the board: %v", m.Name, e.Port, labels)
			}
		}
		monitors = append(monitors, m)
	}

	used := map[string]bool{}
	for _, p := range shipped(t) {
		if strings.HasPrefix(p.where, "mpijob-drop-in.yaml") {
			continue
		}
		all := labels.Merge(p.metadata.Labels, p.labels)
		var by []*monitor
		for _, m := range monitors {
			selector, err := metav1.LabelSelectorAsSelector(&m.Spec.Selector)
			must(t, err)
			if selector.Matches(all) {
				by = append(by, m)
				used[m.Name] = true
			}
		}
		if len(by) != 1 {
			t.Errorf("%s, with labels %v, is of %d monitors, want one", p.where, all, len(by))
			continue
		}

		want := map[string][]string{launches: {"mpiup-run"}, serves: {"mpiup-http"}, isBoth: {"mpiup-http", "mpiup-run"}, stays: {"mpiup-http"}}[p.role]
		for _, port := range want {
			number := map[string]int32{"mpiup-http": 7612, "mpiup-run": 7613}[port]
			declares := slices.ContainsFunc(p.first().Ports, func(c corev1.ContainerPort) bool { return c.Name == port && c.ContainerPort == number })
			scrapes := false
			for _, e := range by[0].Spec.PodMetricsEndpoints {
				scrapes = scrapes || e.Port == port
			}
			if !declares || !scrapes {
				t.Errorf("%s declares %s: %v; %s scrapes it: %v", p.where, port, declares, by[0].Name, scrapes)
			}
		}
		shown := slices.ContainsFunc(p.first().Env, func(e corev1.EnvVar) bool { return e.Name == "MPIUP_METRICS" && e.Value == ":7613" })
		if runs := slices.Contains(want, "mpiup-run"); runs && !shown {
			t.Errorf("%s declares a port of the launcher's, which MPIUP_METRICS does not name", p.where)
		}
	}
	for _, m := range monitors {
		if !used[m.Name] {
			t.Errorf("no pod that we ship is of %s", m.Name)
		}
	}
}

// prometheusrule.yaml has the rules of alerts.yaml, which promtool plays.
func TestMonitorsRules(t *testing.T) {
	const path = "../../../examples/monitoring/"
	rules, err := os.ReadFile(path + "alerts.yaml")
	must(t, err)
	kept, err := os.ReadFile(path + "prometheusrule.yaml")
	must(t, err)
	head, _, found := strings.Cut(string(kept), "spec:\n")
	if !found {
		t.Fatal("it has no spec")
	}

	var made strings.Builder
	made.WriteString(head + "spec:\n")
	for line := range strings.Lines(string(rules)) {
		if line != "\n" {
			made.WriteString("  ")
		}
		made.WriteString(line)
	}
	if *update {
		must(t, os.WriteFile(path+"prometheusrule.yaml", []byte(made.String()), 0o644))
	} else if made.String() != string(kept) {
		t.Error("its rules are not those of alerts.yaml: cd test/kube && go test ./contract -run Monitors -update")
	}
}
