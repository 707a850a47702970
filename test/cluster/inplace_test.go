package cluster

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// inPlace is jobset.yaml with JobSet's in-place restarts: its agent is the container's program, and what it was the agent's worker.
func inPlace(t *testing.T) string {
	t.Helper()
	manifest := changedTo(t, example(t, "jobset.yaml"), "{maxRestarts: 3}", "{maxRestarts: 3, restartStrategy: InPlaceRestart}",
		"        backoffLimit: 2  ", "        podReplacementPolicy: Failed\n        backoffLimit: 2147483647 ", "restartPolicy: Never\n", "restartPolicy: OnFailure\n",
		"/pi:1", "/pi-in-place:1", "/opt/pi", "/opt/steady 600 /tmp/go",
		"              env:\n", "              env:\n              - {name: JOBSET_NAME, value: pi}\n              - {name: POD_NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}\n")
	command := regexp.MustCompile(`command: (\["mpiup", "up", .*\])`).FindStringSubmatch(manifest)
	var words []string
	if command == nil || json.Unmarshal([]byte(command[1]), &words) != nil {
		t.Fatalf("no command of mpiup up:\n%s", manifest)
	}
	return changedTo(t, manifest, command[0], `command: ["in-place-restart-agent"]`,
		"              env:\n", fmt.Sprintf("              env:\n              - {name: WORKER_COMMAND, value: %q}\n", strings.Join(words, " ")))
}

// JobSet's own agents restart all containers in their pods when mpiup is killed in one: the ranks begin anew, and the JobSet completes.
func TestJobSetRestartsInPlace(t *testing.T) {
	asked(t)
	t.Parallel()
	for _, killed := range []string{"pi-node-0-1", "pi-node-0-0"} {
		t.Run(killed, func(t *testing.T) {
			t.Parallel()
			s := namespace(t)
			s.keyed()
			s.k("create", "role", "agents", "--verb=get", "--verb=list", "--verb=watch", "--verb=patch", "--resource=pods", "--resource=jobsets.jobset.x-k8s.io")
			s.k("create", "rolebinding", "agents", "--role=agents", "--serviceaccount="+s.name+":default")
			s.apply(inPlace(t))
			first := s.known("pi-node-0-0")
			s.works(first)
			before := map[string]string{}
			for _, name := range []string{"pi-node-0-0", "pi-node-0-1", "pi-node-0-2"} {
				before[name] = s.pod(name).Metadata.UID
			}
			// The container may end before the command in it has: whether it was killed is seen by the restarts.
			_, _ = s.kubectl("", "exec", s.pod(killed).Metadata.Name, "--", "sh", "-c", `for p in /proc/[0-9]*; do if [ "$(cat $p/comm)" = mpiup ]; then kill -KILL ${p#/proc/}; fi; done`)
			s.say("mpiup is killed in %s", killed)
			for name := range before {
				s.until(name+" has started again", func() bool {
					c := s.pod(name).container()
					return c.RestartCount > 0 && c.State.Running != nil
				})
			}
			s.works(first)
			s.k("exec", first, "--", "touch", "/tmp/go") // where rank 0 is
			s.becomes("Completed", "jobset/pi")
			if out := s.logs(first); strings.Count(out, " end ") != 6 {
				t.Errorf("not six ranks came to their end:\n%s", out)
			}
			if got := s.k("get", "jobset", "pi", "-o", "jsonpath={.status.restarts} {.status.currentInPlaceRestartAttempt}"); got != "0 1" && got != " 1" {
				t.Errorf("restarts of the JobSet, and in place: %q", got)
			}
			for name, uid := range before {
				if p := s.pod(name); p.Metadata.UID != uid || p.container().RestartCount == 0 {
					t.Errorf("%s is another pod, or its container was not started again: %s", name, p.line())
				}
			}
		})
	}
}
