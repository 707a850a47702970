package kubectl

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/mpiup/mpiup/test/cost"
)

// recorded is what a Kubernetes 1.35 printed of a job's pods, with MPI Operator 0.8, JobSet 0.12 and LeaderWorkerSet 0.8.
func recorded(t testing.TB, kind string) []byte {
	t.Helper()
	text, err := os.ReadFile("testdata/" + kind + ".json")
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// found is what the lists of a line find where the jobs of some recorded kinds are.
func found(t *testing.T, l *Line, kinds ...string) (all []Found) {
	t.Helper()
	labels := map[string]string{"job": "batch.kubernetes.io/job-name=pi", "jobset": "jobset.sigs.k8s.io/jobset-name=tj", "lws": "leaderworkerset.sigs.k8s.io/name=serve",
		"mpijob": "training.kubeflow.org/job-name=mj"}
	for _, list := range l.Lists() {
		output := []byte(`{"apiVersion": "v1", "items": [], "kind": "List"}`)
		for _, k := range kinds {
			if label := labels[k]; label != "" && strings.Contains(strings.Join(list.Words, " "), "--selector="+label) || k == "statefulset" && !strings.Contains(strings.Join(list.Words, " "), "--selector") {
				output = recorded(t, k)
			}
		}
		f, err := l.Read(list, output)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

// A command line becomes a kubectl in the pod that launches.
func TestExec(t *testing.T) {
	for _, c := range []struct{ line, jobs, want string }{
		{"peers mj", "mpijob", "exec mj-launcher-qqsw6 -- /usr/local/bin/mpiup peers"},
		{"ps mpijob/mj -n team --json", "mpijob", "exec --namespace=team mj-launcher-qqsw6 -- /usr/local/bin/mpiup ps --json"},
		{"peers tj -c node", "jobset", "exec tj-node-0-0-nkfrp --container=node -- /usr/local/bin/mpiup peers"},
		{"stacks trainjob/tj --mpiup /opt/mpiup", "jobset", "exec tj-node-0-0-nkfrp -- /opt/mpiup stacks"},
		{"--context=c doctor serve -- -n 8 -c x", "lws", "exec --context=c serve-0 -- /usr/local/bin/mpiup doctor -n 8 -c x"},
		{"shutdown pool", "statefulset", "exec pool-0 -- /usr/local/bin/mpiup shutdown"},
		{"shutdown sts/pool --pod pool-1", "statefulset", "exec pool-1 -- /usr/local/bin/mpiup shutdown"},
		{"exec pi pi-1 -- ls -n", "job", "exec --stdin pi-0-xvwrz -- /usr/local/bin/mpiup exec pi-1.pi -- ls -n"},
		{"exec -it pi pi-1-xvmwm -- bash", "job", "exec --stdin --tty pi-0-xvwrz -- /usr/local/bin/mpiup exec --tty pi-1.pi -- bash"},
		{"top mj --window 1m", "mpijob", "exec mj-launcher-qqsw6 -- /usr/local/bin/mpiup top --window 1m"},
		{"support pi -n team --list", "job", "exec --namespace=team pi-0-xvwrz -- /usr/local/bin/mpiup"},
		{"exec pi other -- ls", "job", "exec --stdin pi-0-xvwrz -- /usr/local/bin/mpiup exec other -- ls"},
		{"peers nothing", "job", "no pods of a MPIJob, TrainJob, JobSet, Job, LeaderWorkerSet, Volcano Job or StatefulSet nothing"},
		{"peers pi --pod pi-9", "job", "Job pi has no pod pi-9: pi-0-xvwrz (Running), pi-1-xvmwm (Running)"},
	} {
		l, err := Parse(strings.Fields(c.line))
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		got := ""
		if p, note, err := l.Choose(found(t, &l, strings.Fields(c.jobs)...)); err != nil {
			got = err.Error()
		} else if got = strings.Join(l.Exec(p), " "); note != "" {
			t.Errorf("%s: says %q", c.line, note)
		}
		if got != c.want && !(strings.Contains(c.want, "pod") && strings.Contains(got, c.want)) {
			t.Errorf("%s: got\n%s, want\n%s", c.line, got, c.want)
		}
	}
}

// What is no command line says what is wrong with it.
func TestParseRefuses(t *testing.T) {
	for line, says := range map[string]string{
		"frobnicate pi":     `"frobnicate" is none of the commands for a job: doctor, exec, logs, peers, ps, report, shutdown, stacks, support, top, why`,
		"peers":             "which job? write kubectl mpiup peers JOB",
		"peers pi -n":       "-n needs a value",
		"peers --context=":  "--context= needs a value",
		"peers pod/pi":      `"pod" is no kind of job that mpiup knows: mpijob, jobset, job, lws, vcjob, statefulset`,
		"peers a=b,c":       `"a=b,c" is no name of a job`,
		"exec pi":           "exec: what is to run, and where? write kubectl mpiup exec pi HOST -- COMMAND",
		"--json peers":      "which job?",
		"--frobnicate":      "--frobnicate stands before the command",
		"peers -n team":     "which job?",
		"logs pi/pi/pi":     "is no kind of job",
		"peers job/PI":      `"PI" is no name of a job`,
		"exec -n team -- x": "which job?",
		"ps pi --pod -x":    `"-x" is no name of a pod`,
	} {
		if _, err := Parse(strings.Fields(line)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, not %q", line, err, says)
		}
	}
	for _, line := range []string{"", "--help", "peers --help", "-h"} {
		if l, err := Parse(strings.Fields(line)); err != nil || !l.Help {
			t.Errorf("%s: %+v, %v", line, l, err)
		}
	}
}

// Where the pod that launches has ended, another is asked, and its log is still read.
func TestChooseAnother(t *testing.T) {
	ended := func(f []Found, phase string) []Found {
		for i := range f {
			for j := range f[i].Pods {
				if p := &f[i].Pods[j]; strings.Contains(p.Metadata.Name, "launcher") || phase == "Failed" {
					p.Status.Phase = phase
				}
			}
		}
		return f
	}
	l, _ := Parse([]string{"peers", "mj"})
	p, note, err := l.Choose(ended(found(t, &l, "mpijob"), "Succeeded"))
	if err != nil || p.Metadata.Name != "mj-worker-0" || note != "pod mj-launcher-qqsw6, which launches, is Succeeded: mj-worker-0 is asked instead" {
		t.Errorf("%+v, %q, %v", p, note, err)
	}
	if _, _, err = l.Choose(ended(found(t, &l, "mpijob"), "Failed")); err == nil || !strings.Contains(err.Error(), "kubectl mpiup logs mj reads the log") {
		t.Error(err)
	}
	l, _ = Parse(strings.Fields("logs mj -f --previous --rank 3"))
	p, _, err = l.Choose(ended(found(t, &l, "mpijob"), "Failed"))
	if err != nil || strings.Join(l.Logs(p), " ") != "logs --previous --follow mj-launcher-qqsw6" || strings.Join(l.Words, " ") != "--rank 3" {
		t.Errorf("%v, %q, %v", p, l.Words, err)
	}
	two := found(t, &l, "mpijob")
	if _, _, err = l.Choose(append(two, Found{Kinds[2], two[0].Pods})); err == nil || err.Error() != "the namespace of your kubeconfig has several jobs of that name: write mpijob/mj or job/mj" {
		t.Error(err)
	}
}

// A right that is lacking is named as a role has it. The lines are kubectl's.
func TestLacks(t *testing.T) {
	l, _ := Parse(strings.Fields("peers pi -n team --as eve"))
	said := `Error from server (Forbidden): pods is forbidden: User "eve" cannot list resource "pods" in API group "" in the namespace "team"`
	if got, want := l.Lacks(said), "you may not list pods in namespace team: ask for a role there with the verb list on pods (kubectl auth can-i list pods --namespace=team --as=eve); with --pod NAME the verb get is enough"; got != want {
		t.Errorf("%q", got)
	}
	if got := l.Lacks("Error from server (NotFound): namespaces \"team\" not found"); got != "" {
		t.Errorf("%q", got)
	}
	if got := strings.Join(l.May(), " "); got != "auth can-i create pods --subresource=exec --namespace=team --as=eve" {
		t.Errorf("%q", got)
	}
	for printed, lacks := range map[string]bool{"yes\n": false, "no\n": true, "no - no RBAC policy matched\n": true, "": false} {
		if got := l.MayNot(printed); (got != "") != lacks || lacks && !strings.HasPrefix(got, "you may not create pods/exec in namespace team") {
			t.Errorf("%q: %q", printed, got)
		}
	}
}

// A pod that was asked for by its name is one of the line's job, of any kind.
func TestReadOne(t *testing.T) {
	for _, c := range []struct{ line, recorded, want string }{
		{"ps pi", "job", "exec pi-0-xvwrz -- /usr/local/bin/mpiup ps"},
		{"ps job/pi", "job", "exec pi-0-xvwrz -- /usr/local/bin/mpiup ps"},
		{"ps tj", "jobset", "exec tj-node-0-0-nkfrp -- /usr/local/bin/mpiup ps"},
		{"ps pool", "statefulset", "exec pool-0 -- /usr/local/bin/mpiup ps"},
		{"ps mpijob/pi", "job", "pod pi-0-xvwrz is none of a MPIJob pi"},
		{"ps other", "statefulset", "pod pool-0 is none of a job other"},
	} {
		var list struct{ Items []json.RawMessage }
		if err := json.Unmarshal(recorded(t, c.recorded), &list); err != nil {
			t.Fatal(err)
		}
		for _, item := range list.Items {
			var p Pod
			if err := json.Unmarshal(item, &p); err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(c.want, p.Metadata.Name) {
				continue
			}
			l, err := Parse(append(strings.Fields(c.line), "--pod", p.Metadata.Name))
			if err != nil || strings.Join(l.One(), " ") != "get pod "+p.Metadata.Name+" --output=json" {
				t.Fatalf("%q, %v", l.One(), err)
			}
			got := ""
			if all, err := l.ReadOne(item); err != nil {
				got = err.Error()
			} else if p, _, err := l.Choose(all); err != nil {
				got = err.Error()
			} else {
				got = strings.Join(l.Exec(p), " ")
			}
			if got != c.want {
				t.Errorf("%s: %s, want %s", c.line, got, c.want)
			}
			c.want = ""
		}
		if c.want != "" {
			t.Errorf("%s: the record has no such pod", c.line)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"items": [{"metadata": {"name": "pi-0", "labels": {"a": "b"}}, "spec": {"containers": [{"command": ["mpiup"]}]}}]}`), "exec pi pi-0 -- ls")
	f.Add(recorded(f, "lws"), "peers serve")
	f.Fuzz(func(t *testing.T, output []byte, words string) {
		defer cost.Watch(t, cost.Parser, len(output)+len(words))()
		l, err := Parse(strings.Fields(words))
		if err != nil || l.Help {
			return
		}
		var all []Found
		for _, list := range l.Lists() {
			got, err := l.Read(list, output)
			if err != nil && json.Valid(output) && !strings.Contains(err.Error(), "json: cannot unmarshal") {
				t.Fatal(err)
			}
			all = append(all, got)
		}
		if one, err := l.ReadOne(output); err == nil {
			all = one
		}
		if p, _, err := l.Choose(all[:1]); err == nil {
			for _, w := range l.Exec(p)[:2] {
				if w == "" {
					t.Fatal("an empty word")
				}
			}
		}
	})
}
