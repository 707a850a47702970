package contract

import (
	"strings"
	"testing"

	kubeflow "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
)

// mpijob-restricted.yaml in a namespace labelled pod-security.kubernetes.io/enforce: restricted.
// The pods pass the standard's own checks; its ranks run as the uid that it names, and as any
// other, on a read-only root without a capability; nothing but ranks can be started.
func TestRestrictedPods(t *testing.T) {
	t.Parallel()
	for name, uid := range map[string]int64{"the image's user": 0, "any user": 1234567} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := up(t, setting{images: exampleImages(t)})
			j := decode[kubeflow.MPIJob](t, example(t, "mpijob-restricted.yaml")[0])
			for _, r := range j.Spec.MPIReplicaSpecs {
				if uid != 0 {
					r.Template.Spec.SecurityContext.RunAsUser = &uid
				}
			}
			launcher := &j.Spec.MPIReplicaSpecs[kubeflow.MPIReplicaTypeLauncher].Template.Spec.Containers[0]
			launcher.Command = []string{"sh", "-c", strings.Join(launcher.Command, " ") + `
id -u; grep CapBnd /proc/self/status; touch /x /run/x /etc/x /home/x && echo the root is writable
mpiup exec pi-restricted-worker-0 -- true; echo exec $?; ssh pi-restricted-worker-0 true; echo shell $?; sleep 1000 & wait`}
			l.submit(j)
			out := func() string { return l.Output("pi-restricted-launcher") }
			l.eventually("the launcher has done all", func() bool { return strings.Contains(out(), "\nshell ") })
			on(t, out(), "pi-restricted-worker-0", "pi-restricted-worker-0", "pi-restricted-worker-1", "pi-restricted-worker-1")
			for _, want := range []string{"CapBnd:\t0000000000000000", "policy refuses exec", "policy refuses shell"} {
				if !strings.Contains(out(), want) {
					t.Errorf("nothing says %q:\n%s", want, out())
				}
			}
			if strings.Contains(out(), "\nexec 0") || strings.Contains(out(), "\nshell 0") || strings.Contains(out(), "writable") {
				t.Errorf("exec is possible, or the root is writable:\n%s", out())
			}
			pods := l.pods("")
			if len(pods) != 3 {
				t.Errorf("%d pods, want 3", len(pods))
			}
			for _, p := range pods {
				restricted(t, &p)
			}
		})
	}
}

// restricted asks the checks of Pod Security admission.
func restricted(t *testing.T, p *corev1.Pod) {
	t.Helper()
	e, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	must(t, err)
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, r := range e.EvaluatePod(level, &p.ObjectMeta, &p.Spec) {
		if !r.Allowed {
			t.Errorf("pod %s is refused: %s: %s", p.Name, r.ForbiddenReason, r.ForbiddenDetail)
		}
	}
}
