package contract

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	trainer "github.com/kubeflow/trainer/v2/pkg/apis/trainer/v1alpha1"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	jobset "sigs.k8s.io/jobset/api/jobset/v1alpha2"
	lws "sigs.k8s.io/lws/api/leaderworkerset/v1"

	testlab "github.com/mpiup/mpiup/test/lab"
	"github.com/mpiup/mpiup/test/netns"
)

// keygen makes the Secret that examples without an operator want.
func (l *lab) keygen() {
	l.t.Helper()
	text, err := testlab.Secret(bin(l.t))
	must(l.t, err)
	_, err = l.api.Kube.CoreV1().Secrets(ns).Create(l.t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "mpiup", Namespace: ns}, Data: map[string][]byte{"key": text}}, metav1.CreateOptions{})
	must(l.t, err)
}

// completed waits for a Job's success.
func (l *lab) completed(name string) {
	l.t.Helper()
	l.eventually("job "+name+" is complete", func() bool {
		j, err := l.api.Kube.BatchV1().Jobs(ns).Get(l.t.Context(), name, metav1.GetOptions{})
		return err == nil && condition(j, batchv1.JobComplete)
	})
}

func condition(j *batchv1.Job, kind batchv1.JobConditionType) bool {
	for _, c := range j.Status.Conditions {
		if c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// service, job and so on create an object of a manifest.
func (l *lab) service(text []byte) {
	l.t.Helper()
	_, err := l.api.Kube.CoreV1().Services(ns).Create(l.t.Context(), decode[corev1.Service](l.t, text), metav1.CreateOptions{})
	must(l.t, err)
}

func (l *lab) batchJob(text []byte) {
	l.t.Helper()
	_, err := l.api.Kube.BatchV1().Jobs(ns).Create(l.t.Context(), decode[batchv1.Job](l.t, text), metav1.CreateOptions{})
	must(l.t, err)
}

// indexed-job.yaml as it is: all indexes succeed, and at once. DNS remembers denials as Kubernetes' stock CoreDNS does: on a real
// cluster mpiup shutdown, which ends the job, did not find the hosts that the run before it had found, and all was computed again.
func TestIndexedJob(t *testing.T) {
	t.Parallel()
	l := up(t, setting{images: exampleImages(t)})
	l.hosts.DNS().Cache(30*time.Second, netns.CoreDNS)
	l.keygen()
	docs := example(t, "indexed-job.yaml")
	l.service(docs[0])
	l.batchJob(docs[1])
	l.completed("pi")
	on(t, l.Output("pi-0"), "pi-0", "pi-0", "pi-1", "pi-1", "pi-2", "pi-2")
	for _, p := range l.pods("batch.kubernetes.io/job-name=pi") {
		if restarts(p) != 0 {
			t.Errorf("%s was started %d times again", p.Name, restarts(p))
		}
	}
}

// statefulset.yaml as it is.
func TestStatefulSet(t *testing.T) {
	t.Parallel()
	l := up(t, setting{images: exampleImages(t)})
	l.keygen()
	docs := example(t, "statefulset.yaml")
	l.service(docs[0])
	_, err := l.api.Kube.AppsV1().StatefulSets(ns).Create(t.Context(), decode[appsv1.StatefulSet](t, docs[1]), metav1.CreateOptions{})
	must(t, err)
	l.batchJob(docs[2])
	l.completed("pi")
	on(t, l.Output("pi"), "pool-0", "pool-0", "pool-1", "pool-1", "pool-2", "pool-2")
}

// submitted creates objects for JobSet's and Trainer's controllers.
func (l *lab) submitted(objects ...client.Object) {
	l.t.Helper()
	for _, o := range objects {
		must(l.t, l.jobSets.Submit(l.t.Context(), o))
	}
}

// jobset.yaml as it is, through JobSet's own controller.
func TestJobSet(t *testing.T) {
	t.Parallel()
	l := up(t, setting{jobSets: true, images: exampleImages(t)})
	l.keygen()
	s := decode[jobset.JobSet](t, example(t, "jobset.yaml")[0])
	s.Namespace = ns
	l.submitted(s)
	l.eventually("the JobSet is complete", func() bool {
		must(t, l.jobSets.Client.Get(t.Context(), client.ObjectKeyFromObject(s), s))
		return s.Status.TerminalState == string(jobset.JobSetCompleted)
	})
	on(t, l.Output("pi-node-0-0"), "pi-node-0-0", "pi-node-0-0", "pi-node-0-1", "pi-node-0-1", "pi-node-0-2", "pi-node-0-2")
}

// trainer-runtime.yaml as it is, through Trainer's own controller and JobSet's.
func TestTrainer(t *testing.T) {
	t.Parallel()
	l := up(t, setting{jobSets: true, images: exampleImages(t)})
	docs := example(t, "trainer-runtime.yaml")
	r, j := decode[trainer.ClusterTrainingRuntime](t, docs[0]), decode[trainer.TrainJob](t, docs[1])
	j.Namespace = ns
	l.submitted(r, j)
	l.trained(j)
	on(t, l.Output("pi-launcher-0-0"), "pi-launcher-0-0", "pi-launcher-0-0", "pi-node-0-0", "pi-node-0-0")
	i := slices.IndexFunc(j.Status.JobsStatus, func(s trainer.JobStatus) bool { return s.Name == "launcher" })
	if i < 0 || *j.Status.JobsStatus[i].Succeeded != 1 {
		t.Errorf("the TrainJob's status does not say that the launcher has succeeded: %+v", j.Status)
	}
}

// kubeflow/trainer#4030: where a TrainJob's image reaches the nodes its command does too, and replaces what they ran. With mpiup up it
// may: it launches in the pod that has the hostfile and serves in the others.
func TestTrainJobHasImageAndCommandOfAllPods(t *testing.T) {
	t.Parallel()
	l := up(t, setting{jobSets: true, images: exampleImages(t)})
	docs := example(t, "trainer-runtime.yaml")
	r, j := decode[trainer.ClusterTrainingRuntime](t, docs[0]), decode[trainer.TrainJob](t, docs[1])
	for i := range r.Spec.Template.Spec.ReplicatedJobs {
		job := &r.Spec.Template.Spec.ReplicatedJobs[i].Template
		job.Labels = map[string]string{"trainer.kubeflow.org/trainjob-ancestor-step": "trainer"}
		c := &job.Spec.Template.Spec.Containers[0]
		c.Image, c.Command = "registry.example.com/none:1", nil
	}
	image := "registry.example.com/pi:1"
	j.Spec.Trainer.Image, j.Spec.Trainer.Command = &image, []string{"mpiup", "up", "--mpi-ports", "18000-18099", "-n", "4", "/opt/pi"}
	j.Namespace = ns
	l.submitted(r, j)
	l.trained(j)
	on(t, l.Output("pi-launcher-0-0"), "pi-launcher-0-0", "pi-launcher-0-0", "pi-node-0-0", "pi-node-0-0")
}

// trainer-up.yaml as it is: the TrainJob's mpirun is the command of every pod, and all succeed.
func TestTrainerInEveryPod(t *testing.T) {
	t.Parallel()
	images := exampleImages(t)
	image := images["registry.example.com/pi:1"]
	image.Files = maps.Clone(image.Files)
	image.Files["/usr/local/bin/mpirun"] = bin(t)
	images["registry.example.com/pi:1"] = image
	l := up(t, setting{jobSets: true, images: images})
	l.keygen()
	docs := example(t, "trainer-up.yaml")
	r, j := decode[trainer.ClusterTrainingRuntime](t, docs[0]), decode[trainer.TrainJob](t, docs[1])
	j.Namespace = ns
	l.submitted(r, j)
	l.eventually("the TrainJob is complete", func() bool { return l.complete(j) })
	on(t, l.Output("pi-node-0-0"), "pi-node-0-0", "pi-node-0-0", "pi-node-0-1", "pi-node-0-1")
}

// trained waits for a TrainJob's success, to which one launcher has come.
func (l *lab) trained(j *trainer.TrainJob) {
	l.t.Helper()
	l.eventually("the TrainJob is complete", func() bool { return l.complete(j) })
	if launchers := l.pods("jobset.sigs.k8s.io/replicatedjob-name=launcher"); len(launchers) != 1 {
		l.t.Errorf("%d launchers", len(launchers))
	}
}

// complete says whether a TrainJob has succeeded, as it is now.
func (l *lab) complete(j *trainer.TrainJob) bool {
	l.t.Helper()
	must(l.t, l.jobSets.Client.Get(l.t.Context(), client.ObjectKeyFromObject(j), j))
	return slices.ContainsFunc(j.Status.Conditions, func(c metav1.Condition) bool {
		return c.Type == trainer.TrainJobComplete && c.Status == metav1.ConditionTrue
	})
}

// leaderworkerset.yaml as it is, through LeaderWorkerSet's own controllers: each group is a job of
// its own. Its program stays, as a server does, for a leader that ends is started anew.
func TestLeaderWorkerSet(t *testing.T) {
	t.Parallel()
	images := exampleImages(t)
	serve := images["registry.example.com/serve:1"]
	serve.Files["/opt/serve"] = script(t, "/opt/pi; exec sleep 1000")
	l := up(t, setting{leaderWorkerSets: true, images: images})
	l.keygen()
	s := decode[lws.LeaderWorkerSet](t, example(t, "leaderworkerset.yaml")[0])
	s.Namespace = ns
	must(t, l.leaderWorkerSets.Submit(t.Context(), s))
	for group := range *s.Spec.Replicas {
		leader := fmt.Sprintf("serve-%d", group)
		l.eventually(leader+" runs", func() bool { return len(ranksOn(l.Output(leader), 24)) == 24 })
		var want []string
		for _, host := range []string{leader, leader + "-1", leader + "-2"} {
			want = append(want, slices.Repeat([]string{host}, 8)...)
		}
		on(t, l.Output(leader), want...)
	}
}
