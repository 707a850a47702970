package cluster

import (
	"strings"
	"testing"
)

// settled checks that a launcher, which has ended, needed neither a second container nor a second pod, and says the seconds.
func (s *space) settled(name string) {
	s.Helper()
	if p := s.pod(name); p.container().RestartCount != 0 {
		s.Errorf("the launcher has ended before it succeeded: %s", p.line())
	}
	if out := s.k("get", "pods", "-l", "training.kubeflow.org/job-role=launcher", "-o", "name"); strings.Count(out, "\n") != 1 {
		s.Errorf("the job took more launchers than one: %s", out)
	}
}

// gated is mpijob.yaml with workers that nobody schedules before arrive lets them.
func gated(t *testing.T) string {
	t.Helper()
	const worker = "    Worker:\n      replicas: 2\n      restartPolicy: OnFailure       # kubelet restarts an agent that crashed; with Never its pod stays dead\n      template:\n        spec:\n"
	return changedTo(t, example(t, "mpijob.yaml"), worker, worker+"          schedulingGates: [{name: example.com/later}]\n")
}

func (s *space) arrive(pod string) {
	s.Helper()
	s.k("patch", "pod", pod, "--type=json", "-p", `[{"op": "remove", "path": "/spec/schedulingGates"}]`)
	s.say("%s may be scheduled", pod)
}

// says waits for a text in a pod's log.
func (s *space) says(pod, text string) {
	s.Helper()
	s.until(pod+" says "+text, func() bool {
		out, err := s.kubectl("", "logs", pod)
		return err == nil && strings.Contains(out, text)
	})
}

// The launcher runs before its workers are scheduled, which come one by one.
func TestWorkersLate(t *testing.T) {
	t.Parallel()
	s := namespace(t)
	s.apply(gated(t))
	l := launcher(s)
	s.says(l, "waiting for 2 of 2 hosts")
	s.arrive("pi-worker-1")
	s.says(l, "waiting for 1 of 2 hosts")
	s.arrive("pi-worker-0")
	s.becomes("Succeeded", "mpijob/pi")
	s.computed(l, 4)
	s.settled(l)
}

// nameserver is a CoreDNS of the namespace's own as the cluster's is, with an address that its Service has before it runs.
const nameserver = `
apiVersion: v1
kind: ServiceAccount
metadata: {name: coredns}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: NAMESPACE-coredns}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: "system:coredns"}
subjects: [{kind: ServiceAccount, name: coredns, namespace: NAMESPACE}]
---
apiVersion: v1
kind: Service
metadata: {name: dns}
spec:
  selector: {app: dns}
  ports: [{name: udp, port: 53, protocol: UDP}, {name: tcp, port: 53, protocol: TCP}]
---
apiVersion: apps/v1
kind: Deployment
metadata: {name: dns}
spec:
  replicas: 0
  selector: {matchLabels: {app: dns}}
  template:
    metadata: {labels: {app: dns}}
    spec:
      serviceAccountName: coredns
      containers:
      - name: coredns
        image: IMAGE
        args: [-conf, /etc/coredns/Corefile]
        volumeMounts: [{name: config, mountPath: /etc/coredns}]
      volumes: [{name: config, configMap: {name: coredns}}]
`

// All pods run before the server of names does that they ask.
func TestDNSLate(t *testing.T) {
	t.Parallel()
	s := namespace(t)
	corefile := s.k("get", "configmap", "coredns", "-n", "kube-system", "-o", "jsonpath={.data.Corefile}")
	if _, err := s.kubectl(corefile, "create", "configmap", "coredns", "--from-file=Corefile=/dev/stdin"); err != nil {
		t.Fatal(err)
	}
	image := s.k("get", "deployment", "coredns", "-n", "kube-system", "-o", "jsonpath={.spec.template.spec.containers[0].image}")
	t.Cleanup(func() { s.k("delete", "clusterrolebinding", s.name+"-coredns", "--ignore-not-found") })
	s.apply(strings.NewReplacer("NAMESPACE", s.name, "IMAGE", image).Replace(nameserver))
	address := s.k("get", "service", "dns", "-o", "jsonpath={.spec.clusterIP}")
	const spec = "          terminationGracePeriodSeconds: 30\n"
	s.apply(changedTo(t, example(t, "mpijob.yaml"), spec, spec+"          dnsPolicy: None\n          dnsConfig: {nameservers: ["+address+"], searches: ["+s.name+".svc.cluster.local, svc.cluster.local, cluster.local], options: [{name: ndots, value: \"5\"}]}\n"))
	l := launcher(s)
	s.says(l, "waiting for 2 of 2 hosts")
	s.says(l, "no answer from DNS")
	s.until("both workers' containers run", func() bool {
		return s.pod("pi-worker-0").container().State.Running != nil && s.pod("pi-worker-1").container().State.Running != nil
	})
	s.say("%s", s.logs(l))
	s.k("scale", "deployment", "dns", "--replicas=1")
	s.say("the server of names starts")
	s.becomes("Succeeded", "mpijob/pi")
	s.computed(l, 4)
	s.settled(l)
}

// Workers of a tenth of a CPU: agents and their ranks stand still for most of each 100 ms. Nobody takes them for dead.
func TestCPUQuota(t *testing.T) {
	t.Parallel()
	s := namespace(t)
	const worker = "            command: [\"mpiup\", \"agent\"]\n"
	s.apply(changedTo(t, example(t, "mpijob.yaml"), `"/opt/pi"`, `"/opt/steady", "30"`,
		worker, worker+"            resources: {limits: {cpu: 100m}, requests: {cpu: 0}}\n"))
	l := launcher(s)
	s.works(l)
	stat := s.k("exec", "pi-worker-1", "--", "cat", "/sys/fs/cgroup/cpu/cpu.stat")
	s.say("of pi-worker-1: %s", strings.Join(strings.Fields(stat), " "))
	if number(t, stat, `nr_throttled (\d+)`) == 0 {
		t.Error("no quota held the worker back")
	}
	s.becomes("Succeeded", "mpijob/pi")
	s.settled(l)
	for _, worker := range []string{"pi-worker-0", "pi-worker-1"} {
		if p := s.pod(worker); p.container().RestartCount != 0 {
			t.Errorf("%s has started again: %s", worker, p.line())
		}
	}
}
