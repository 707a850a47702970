package contract

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	volcano "volcano.sh/apis/pkg/apis/batch/v1alpha1"

	"github.com/mpiup/mpiup/test/credential"
)

// volcano-job.yaml as it is. Volcano's controllers are of a module that wants all of Kubernetes, so
// what its plugins ssh, svc and env do is played here, as they do it in v1.15 (pkg/controllers/job/plugins).
func TestVolcano(t *testing.T) {
	t.Parallel()
	images := exampleImages(t)
	for name, image := range images { // whose plugin's key is root's alone, unless it is told another path
		image.User = 0
		images[name] = image
	}
	l := up(t, setting{images: images})
	j := decode[volcano.Job](t, example(t, "volcano-job.yaml")[0])
	l.volcano(j)
	on(t, l.mastered("pi-master-0"), "pi-worker-0", "pi-worker-0", "pi-worker-1", "pi-worker-1")
}

// volcano makes all that Volcano makes for a job.
func (l *lab) volcano(j *volcano.Job) {
	l.t.Helper()
	hosts := l.volcanoObjects(j)
	for _, task := range j.Spec.Tasks {
		for i := range task.Replicas {
			_, err := l.api.Kube.CoreV1().Pods(ns).Create(l.t.Context(), volcanoPod(j, task, i, hosts), metav1.CreateOptions{})
			must(l.t, err)
		}
	}
}

// mastered waits for the success of a job's master and gives its output.
func (l *lab) mastered(name string) string {
	l.t.Helper()
	l.eventually("the master has succeeded", func() bool {
		p, err := l.api.Kube.CoreV1().Pods(ns).Get(l.t.Context(), name, metav1.GetOptions{})
		return err == nil && p.Status.Phase == corev1.PodSucceeded
	})
	return l.Output(name)
}

// volcanoObjects makes the Secret of plugin ssh, and Service and ConfigMap of plugin svc; it gives
// each task's hosts.
func (l *lab) volcanoObjects(j *volcano.Job) map[string]string {
	l.t.Helper()
	private, authorized := credential.Volcano()
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name, Namespace: ns} }
	core := l.api.Kube.CoreV1()
	_, err := core.Secrets(ns).Create(l.t.Context(), &corev1.Secret{ObjectMeta: meta(j.Name + "-ssh"), Data: map[string][]byte{
		"id_rsa": private, "id_rsa.pub": authorized, "authorized_keys": authorized,
		"config": []byte("StrictHostKeyChecking no\nUserKnownHostsFile /dev/null\n")}}, metav1.CreateOptions{})
	must(l.t, err)
	hosts, files := map[string]string{}, map[string]string{}
	for _, task := range j.Spec.Tasks {
		var names []string
		for i := range task.Replicas {
			names = append(names, fmt.Sprintf("%s-%s-%d.%[1]s", j.Name, task.Name, i))
		}
		hosts[task.Name], files[task.Name+".host"] = strings.Join(names, ","), strings.Join(names, "\n")
	}
	_, err = core.ConfigMaps(ns).Create(l.t.Context(), &corev1.ConfigMap{ObjectMeta: meta(j.Name + "-svc"), Data: files}, metav1.CreateOptions{})
	must(l.t, err)
	_, err = core.Services(ns).Create(l.t.Context(), &corev1.Service{ObjectMeta: meta(j.Name), Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{volcano.JobNameKey: j.Name}}}, metav1.CreateOptions{})
	must(l.t, err)
	return hosts
}

// volcanoPod is a pod of a task: its key files are subPath mounts, as in plugin ssh.
func volcanoPod(j *volcano.Job, task volcano.TaskSpec, index int32, hosts map[string]string) *corev1.Pod {
	name, mode := fmt.Sprintf("%s-%s-%d", j.Name, task.Name, index), int32(0o600)
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: ns, Labels: map[string]string{volcano.JobNameKey: j.Name}}, Spec: *task.Template.Spec.DeepCopy()}
	p.Spec.Hostname, p.Spec.Subdomain, p.Spec.SchedulerName = name, j.Name, ""
	var keys []corev1.KeyToPath
	for _, file := range []string{"id_rsa", "id_rsa.pub", "authorized_keys", "config"} {
		keys = append(keys, corev1.KeyToPath{Key: file, Path: ".ssh/" + file})
	}
	p.Spec.Volumes = append(p.Spec.Volumes,
		corev1.Volume{Name: "ssh", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: j.Name + "-ssh", Items: keys, DefaultMode: &mode}}},
		corev1.Volume{Name: "svc", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: j.Name + "-svc"}}}})
	c := &p.Spec.Containers[0]
	c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "ssh", MountPath: "/root/.ssh", SubPath: ".ssh"}, corev1.VolumeMount{Name: "svc", MountPath: "/etc/volcano"})
	c.Env = append(c.Env, corev1.EnvVar{Name: "VC_TASK_INDEX", Value: fmt.Sprint(index)}, corev1.EnvVar{Name: "VK_TASK_INDEX", Value: fmt.Sprint(index)})
	for t, list := range hosts {
		upper := strings.ToUpper(strings.ReplaceAll(t, "-", "_"))
		c.Env = append(c.Env, corev1.EnvVar{Name: "VC_" + upper + "_HOSTS", Value: list},
			corev1.EnvVar{Name: "VC_" + upper + "_NUM", Value: fmt.Sprint(strings.Count(list, ",") + 1)})
	}
	return p
}
