package cluster

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// plugin is kubectl mpiup in the namespace: its exit code and all that it printed. It must be done within a minute.
func (s *space) plugin(args ...string) (code int, out string) {
	s.Helper()
	dir := s.TempDir()
	k, err := filepath.Abs("k")
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "kubectl"), []byte("#!/bin/sh\nexec "+k+" \"$@\"\n"), 0o755)
	}
	if err != nil {
		s.Fatal(err)
	}
	cmd := exec.CommandContext(s.Context(), "../../bin/mpiup", append([]string{"--namespace", s.name}, args...)...)
	cmd.Args[0] = "kubectl-mpiup"
	cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
	cmd.WaitDelay = time.Minute
	b, err := cmd.CombinedOutput()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		s.Fatal(err)
	}
	s.say("kubectl mpiup %s: %d", strings.Join(args, " "), cmd.ProcessState.ExitCode())
	return cmd.ProcessState.ExitCode(), string(b)
}

// plugs fails the test unless kubectl mpiup ends with a code and prints words. A question may be asked again within a minute, as a machine that
// is too busy delays answers; what is done is done once.
func (s *space) plugs(code int, line string, words ...string) {
	s.Helper()
	for late := time.Now().Add(time.Minute); ; {
		got, out := s.plugin(strings.Fields(line)...)
		lacks := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return strings.Contains(out, w) })
		if got == code && len(lacks) == 0 {
			return
		}
		if strings.HasPrefix(line, "shutdown ") || time.Now().After(late) {
			s.Errorf("kubectl mpiup %s: code %d, want %d; it does not say %q:\n%s", line, got, code, lacks, out)
			return
		}
	}
}

// A user asks for jobs of three kinds by their names. Examples whose pods start ranks only refuse exec by name.
func TestKubectlPlugin(t *testing.T) {
	t.Parallel()
	s := namespace(t)
	s.keyed()
	t.Cleanup(func() { s.k("delete", "clustertrainingruntime", "up-tried", "--ignore-not-found") })
	for _, j := range []struct {
		file, job, first, host string
		ranks                  int
		denied                 bool
	}{
		{"mpijob.yaml", "mpijob/pi", "pi-launcher", "pi-worker-1", 4, false},
		{"indexed-job.yaml", "job/single", "single-0", "single-1", 6, true},
		{"trainer-up.yaml", "trainjob/train", "train-node-0-0", "train-node-0-1", 4, true},
	} {
		kind, name, _ := strings.Cut(j.job, "/")
		manifest := changedTo(t, example(t, j.file), `"/opt/pi"`, `"/opt/steady", "600"`, "name: pi\n", "name: "+name+"\n")
		switch kind {
		case "job":
			manifest = changedTo(t, manifest, "subdomain: pi\n", "subdomain: "+name+"\n")
		case "trainjob": // the runtime is the whole cluster's
			manifest = changedTo(t, manifest, "name: mpi-in-every-pod", "name: up-tried")
		}
		s.apply(manifest)
		s.until(j.job+" works", func() bool {
			code, out := s.plugin("ps", j.job)
			return code == 0 && strings.Count(out, "steady") == j.ranks && strings.Count(out, " running ") >= j.ranks
		})
		s.plugs(0, "peers "+j.job, j.host, "ranks of steady")
		s.until("all is seen and well", func() bool { // which a machine that is too busy delays
			stacks, out := s.plugin("stacks", j.job)
			doctor, _ := s.plugin("doctor", j.job)
			return stacks == 0 && strings.Contains(out, j.host) && strings.Contains(out, " of "+string(rune('0'+j.ranks))) && doctor == 0
		})
		pod := s.pod(j.host).Metadata.Name
		for _, to := range []string{j.host, pod} { // by its host name and by its pod's
			if j.denied {
				s.plugs(246, "exec "+j.job+" "+to+" -- hostname", "the agent's policy refuses exec to launchers (--deny exec,shell)")
			} else {
				s.plugs(0, "exec "+j.job+" "+to+" -- hostname", j.host+"\n")
			}
		}
		if !j.denied {
			continue
		}
		// Inside a pod, by the host name alone, which the pods' search list does not have.
		out, err := s.kubectl("", "exec", s.pod(j.first).Metadata.Name, "--", "mpiup", "exec", j.host, "--", "hostname")
		if err == nil || !strings.Contains(err.Error(), "the agent's policy refuses exec") {
			t.Errorf("mpiup exec %s in a pod: %s, %v", j.host, out, err)
		}
	}
	s.rights("job/single", s.known("single-0"))
	s.plugs(0, "shutdown mpijob/pi", "2 hosts told to end")
	s.until("the launcher's log tells why", func() bool {
		code, out := s.plugin("report", "mpijob/pi")
		return code == 0 && strings.Contains(out, "pi-worker-1")
	})
}

// The kinds that have no operator of MPI's: what one looks at a job with, by its name.
func TestKubectlPluginOfOtherKinds(t *testing.T) {
	asked(t)
	t.Parallel()
	for _, of := range []struct {
		file, job, host string
		ranks           int
		change          []string
	}{
		{"jobset.yaml", "jobset/pi", "pi-node-0-1", 6, []string{`"/opt/pi"`, `"/opt/steady", "600"`}},
		{"statefulset.yaml", "statefulset/pool", "pool-1", 6, []string{`"/opt/pi"`, `"/opt/steady", "600"`}},
		{"leaderworkerset.yaml", "lws/serve", "serve-0-1", 3, []string{`"/opt/serve"`, `"/opt/steady", "600"`, `"--ppn", "8", "-n", "24"`, `"--ppn", "1", "-n", "3"`, "replicas: 2", "replicas: 1"}},
	} {
		t.Run(of.file[:len(of.file)-5], func(t *testing.T) {
			t.Parallel()
			s := namespace(t)
			s.keyed()
			s.apply(changedTo(t, example(t, of.file), of.change...))
			s.until(of.job+" works", func() bool {
				code, out := s.plugin("ps", of.job)
				return code == 0 && strings.Count(out, "steady") == of.ranks && strings.Count(out, " running ") >= of.ranks
			})
			s.plugs(0, "peers "+of.job, of.host, " of steady")
			s.until("stacks has all ranks", func() bool {
				code, out := s.plugin("stacks", of.job)
				return code == 0 && strings.Contains(out, of.host) && strings.Contains(out, " of "+string(rune('0'+of.ranks)))
			})
			s.plugs(0, "doctor "+of.job)
		})
	}
}

// rights asks as users who lack some.
func (s *space) rights(job, pod string) {
	s.Helper()
	for user, verbs := range map[string][]string{"getter": {"get pods", "create pods/exec"}, "reader": {"list pods"}} {
		for i, v := range verbs {
			verb, resource, _ := strings.Cut(v, " ")
			role := user + string(rune('0'+i))
			s.k("create", "role", role, "--verb="+verb, "--resource="+resource)
			s.k("create", "rolebinding", role, "--role="+role, "--user="+user)
		}
	}
	s.until("roles count", func() bool {
		code, _ := s.plugin("ps", job, "--pod", pod, "--as", "getter")
		return code == 0
	})
	s.plugs(241, "ps "+job+" --as getter", "you may not list pods in namespace "+s.name, "with --pod NAME the verb get is enough")
	s.plugs(241, "ps "+job+" --as reader", "you may not create pods/exec in namespace "+s.name)
	s.plugs(241, "report "+job+" --as reader", "you may not get pods/log in namespace "+s.name)
	s.plugs(241, "ps "+job+" --as nobody", "you may not list pods in namespace "+s.name)
}
