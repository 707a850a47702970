package contract

import (
	"fmt"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	kubeflow "github.com/kubeflow/mpi-operator/pkg/apis/kubeflow/v2beta1"
	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/mpiup/mpiup/test/guide"
)

// The rules of OpenShift's SCC restricted-v2, which every authenticated user has by default: what it fills in (admit) and what it refuses (refusals),
// as github.com/openshift/apiserver-library-go has them at a8019f39 (pkg/securitycontextconstraints/sccmatching/provider.go and the strategies
// user/mustrunasrange.go, group/mustrunas.go, capabilities/mustrunas.go, seccomp/strategy.go), and the SCC itself as
// github.com/openshift/cluster-kube-apiserver-operator has it at 05211dd6 (bindata/bootkube/scc-manifests, 0000_20_..._scc-restricted-v2.yaml).
// That module is on no proxy that serves this one's. SELinux is left out: it is filled in where a pod says nothing, and ours say nothing.
const (
	// firstUser of a namespace's range (openshift.io/sa.scc.uid-range: 1000660000/10000), which is its first group as well.
	firstUser    = 1000660000
	rangeOfUsers = 10000
)

// allowedVolumes are the kinds of volumes that it allows.
func allowedVolume(v corev1.VolumeSource) bool {
	return v.ConfigMap != nil || v.DownwardAPI != nil || v.EmptyDir != nil || v.PersistentVolumeClaim != nil || v.Projected != nil || v.Secret != nil
}

// admit fills in what a pod leaves open.
func admit(p *corev1.PodSpec) {
	first, no, yes := int64(firstUser), false, true
	if p.SecurityContext == nil {
		p.SecurityContext = &corev1.PodSecurityContext{}
	}
	pod := p.SecurityContext
	if pod.FSGroup == nil {
		pod.FSGroup = &first
	}
	if pod.SeccompProfile == nil {
		pod.SeccompProfile = &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}
	}

	for _, list := range [][]corev1.Container{p.InitContainers, p.Containers} {
		for i := range list {
			if list[i].SecurityContext == nil {
				list[i].SecurityContext = &corev1.SecurityContext{}
			}
			c := list[i].SecurityContext
			if c.RunAsUser == nil && pod.RunAsUser == nil {
				c.RunAsUser = &first
			}
			if c.RunAsNonRoot == nil && pod.RunAsNonRoot == nil {
				c.RunAsNonRoot = &yes
			}
			if c.AllowPrivilegeEscalation == nil {
				c.AllowPrivilegeEscalation = &no
			}
			if c.Capabilities == nil {
				c.Capabilities = &corev1.Capabilities{}
			}
			if !slices.Contains(c.Capabilities.Drop, "ALL") {
				c.Capabilities.Drop = append(c.Capabilities.Drop, "ALL")
			}
		}
	}
}

// refusals are what it has against a pod that is admitted.
func refusals(p *corev1.PodSpec) (all []string) {
	refuse := func(when bool, format string, args ...any) {
		if when {
			all = append(all, fmt.Sprintf(format, args...))
		}
	}
	outside := func(id int64) bool { return id < firstUser || id >= firstUser+rangeOfUsers }
	pod := p.SecurityContext
	refuse(outside(*pod.FSGroup), "fsGroup %d is not an allowed group", *pod.FSGroup)
	refuse(pod.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault, "seccomp %s", pod.SeccompProfile.Type)
	refuse(p.HostNetwork || p.HostPID || p.HostIPC, "a namespace of the host's")
	for _, v := range p.Volumes {
		refuse(!allowedVolume(v.VolumeSource), "a volume %s of a kind that is not allowed", v.Name)
	}

	for _, list := range [][]corev1.Container{p.InitContainers, p.Containers} {
		for _, container := range list {
			c := container.SecurityContext
			user := c.RunAsUser
			if user == nil {
				user = pod.RunAsUser
			}
			refuse(outside(*user), "%s: runAsUser %d is not in the namespace's range", container.Name, *user)
			refuse(c.Privileged != nil && *c.Privileged, "%s: privileged", container.Name)
			refuse(*c.AllowPrivilegeEscalation, "%s: allowPrivilegeEscalation", container.Name)
			refuse(c.SeccompProfile != nil && c.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault, "%s: seccomp", container.Name)
			for _, add := range c.Capabilities.Add {
				refuse(add != "NET_BIND_SERVICE", "%s: the capability %s may not be added", container.Name, add)
			}
			for _, port := range container.Ports {
				refuse(port.HostPort != 0, "%s: a port of the host's", container.Name)
			}
		}
	}
	return all
}

// Every pod that we ship passes restricted-v2, and what it makes of it passes Pod Security "restricted". Only what needs RDMA's locked memory does
// not, for which docs/openshift.md has an SCC.
func TestRestrictedV2(t *testing.T) {
	refused := map[string]string{"mpijob-gpu.yaml: MPIJob train, Worker": "worker: the capability IPC_LOCK may not be added"}
	for _, p := range shipped(t) {
		user := p.first().SecurityContext != nil && (p.first().SecurityContext.RunAsUser != nil || p.first().SecurityContext.RunAsGroup != nil)
		if s := p.spec.SecurityContext; s != nil && (s.RunAsUser != nil || s.RunAsGroup != nil || s.FSGroup != nil) || user {
			t.Errorf("%s fixes a user or a group, which is the namespace's to give", p.where)
		}

		spec := p.spec.DeepCopy()
		admit(spec)
		got := strings.Join(refusals(spec), "; ")
		if want := refused[p.where]; got != want {
			t.Errorf("%s is refused: %q, want %q", p.where, got, want)
		}
		if delete(refused, p.where); got == "" {
			restricted(t, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: p.where}, Spec: *spec})
		}
	}
	for where := range refused {
		t.Errorf("%s is not shipped", where)
	}
}

// The rules see what they are for.
func TestRestrictedV2Refuses(t *testing.T) {
	for want, change := range map[string]func(*corev1.PodSpec){
		"fsGroup 1000 is not an allowed group":                 func(p *corev1.PodSpec) { p.SecurityContext = &corev1.PodSecurityContext{FSGroup: new(int64(1000))} },
		"main: runAsUser 1000 is not in the namespace's range": func(p *corev1.PodSpec) { p.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(1000))} },
		"main: the capability IPC_LOCK may not be added": func(p *corev1.PodSpec) {
			p.Containers[0].SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"IPC_LOCK"}}}
		},
		"main: privileged": func(p *corev1.PodSpec) {
			p.Containers[0].SecurityContext = &corev1.SecurityContext{Privileged: new(true)}
		},
		"main: allowPrivilegeEscalation": func(p *corev1.PodSpec) {
			p.Containers[0].SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: new(true)}
		},
		"a namespace of the host's": func(p *corev1.PodSpec) { p.HostNetwork = true },
		"main: a port of the host's": func(p *corev1.PodSpec) {
			p.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 7612}}
		},
		"a volume x of a kind that is not allowed": func(p *corev1.PodSpec) {
			p.Volumes = []corev1.Volume{{Name: "x", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{}}}}
		},
		"": func(*corev1.PodSpec) {},
	} {
		p := &corev1.PodSpec{Containers: []corev1.Container{{Name: "main"}}}
		change(p)
		admit(p)
		if got := strings.Join(refusals(p), "; "); got != want {
			t.Errorf("refused is %q, want %q", got, want)
		}
	}
}

// A TrainJob and an MPIJob run without any user or group in their manifests: on plain Kubernetes as the image's user, who is of group 0; and as a
// random user and group that an SCC gives. All pods are "restricted".
func TestRunsAsWhoeverThePlatformSays(t *testing.T) {
	t.Parallel()
	for _, as := range []struct {
		name string
		uid  string
		scc  bool
	}{{"the image's user", "1000", false}, {"a random user of an SCC", fmt.Sprint(firstUser), true}} {
		t.Run(as.name, func(t *testing.T) {
			t.Parallel()
			l := up(t, setting{jobSets: true, images: running(t, whereAmI+`; echo user $(id -u) group $(id -g)`)})
			r, j := decode[trainer.ClusterTrainingRuntime](t, chart(t, "runtime")["hardened"]), decode[trainer.TrainJob](t, example(t, "trainer-runtime.yaml")[1])
			for i := range r.Spec.Template.Spec.ReplicatedJobs {
				p := &r.Spec.Template.Spec.ReplicatedJobs[i].Template.Spec.Template.Spec
				p.Containers[0].Image = "registry.example.com/pi:1"
				if as.scc {
					admit(p)
				}
			}
			j.Namespace, j.Spec.RuntimeRef.Name = ns, r.Name
			l.submitted(r, j)

			m := decode[kubeflow.MPIJob](t, example(t, "mpijob-restricted.yaml")[0])
			for _, replicas := range m.Spec.MPIReplicaSpecs {
				if as.scc {
					admit(&replicas.Template.Spec)
				}
			}
			l.submit(m)
			l.trained(j)
			out := l.Output("pi-launcher-0-0") + l.succeeded("pi-restricted")
			if got := strings.Count(out, "user "+as.uid+" group 0\n"); got != 8 {
				t.Errorf("%d of 8 ranks ran as user %s and group 0:\n%s", got, as.uid, out)
			}
			for _, p := range l.pods("") {
				restricted(t, &p)
			}
		})
	}
}

// What docs/openshift.md shows has the form of what it is: an SCC that differs from restricted-v2 in what it says, and a Task whose script is sh's.
func TestOpenShiftPage(t *testing.T) {
	blocks, err := guide.Read("../../../docs/openshift.md")
	must(t, err)
	seen := map[string]bool{}
	for _, b := range blocks {
		if b.Kind != "yaml" {
			continue
		}
		var object map[string]any
		must(t, yaml.UnmarshalStrict([]byte(b.Text), &object))
		kind := fmt.Sprint(object["apiVersion"], "/", object["kind"])
		seen[kind] = true
		switch kind {
		case "security.openshift.io/v1/SecurityContextConstraints":
			for field, want := range map[string]any{"allowedCapabilities": []any{"IPC_LOCK"}, "allowPrivilegeEscalation": false, "allowPrivilegedContainer": false,
				"allowHostNetwork": false, "allowHostDirVolumePlugin": false, "fsGroup": map[string]any{"type": "MustRunAs"}, "seccompProfiles": []any{"runtime/default"}} {
				if !reflect.DeepEqual(object[field], want) {
					t.Errorf("the SCC's %s is %v, want %v", field, object[field], want)
				}
			}
		case "tekton.dev/v1/Task":
			step := object["spec"].(map[string]any)["steps"].([]any)[0].(map[string]any)
			check := exec.Command("sh", "-n")
			check.Stdin = strings.NewReader(step["script"].(string))
			if out, err := check.CombinedOutput(); err != nil || step["image"] == "" {
				t.Errorf("line %d: %v: %s", b.Line, err, out)
			}
		default:
			t.Errorf("line %d: nobody knows %s", b.Line, kind)
		}
	}
	if len(seen) != 2 {
		t.Errorf("the page shows %v", seen)
	}
}
