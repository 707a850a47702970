package cluster

import (
	"regexp"
	"slices"
	"testing"
)

// The ways to adopt mpiup, by upstream's own pi.yaml and the least change of it: the image alone (TestUpstreamsExamples;
// here with the library's own launcher, over mpiup's ssh), the commands, an init container and the user's own image.
func TestTiers(t *testing.T) {
	asked(t)
	t.Parallel()
	const sshd = "command:\n            - /usr/sbin/sshd\n            args:\n            - -De\n            - -f\n            - /home/mpiuser/.sshd_config"
	const mpirun = "command:\n            - mpirun\n            args:"
	for _, tier := range []struct {
		name string
		// oldnew are the changes of the manifest.
		oldnew []string
	}{
		// What scripts of such images do, too: wait for sshd, and call a launcher by its path.
		{"own launcher", []string{mpirun,
			"command:\n            - sh\n            - -ec\n            - until ssh pi-worker-1.pi hostname; do sleep 0.2; done; exec /usr/bin/mpirun \"$@\"\n            - sh\n            args:"}},
		{"commands", []string{sshd, "command: [mpiup, agent]", mpirun, "command: [mpiup, run]\n            args:"}},
		{"init container", []string{sshd, "command: [/opt/mpiup/mpiup, agent]" + mounted, mpirun, "command: [/opt/mpiup/mpiup, run]" + mounted + "\n            args:",
			"        spec:\n          containers:\n", "        spec:\n" + bringing + "          containers:\n",
			"mpioperator/mpi-pi:openmpi", "registry.example.com/users-own-image:7"}},
	} {
		t.Run(tier.name, func(t *testing.T) {
			t.Parallel()
			s := namespace(t)
			s.apply(changedTo(t, s.upstream("pi.yaml"), tier.oldnew...))
			s.becomes("Succeeded", "mpijob/pi")
			s.computed(launcher(s), 2)
			s.on(launcher(s), "pi-worker-0", "pi-worker-1")
		})
	}
}

// bringing is what a pod needs in which an init container brings mpiup.
const bringing = `          volumes: [{name: mpiup, emptyDir: {}}]
          initContainers:
          - name: mpiup
            image: registry.example.com/mpiup:1
            args: [install, /opt/mpiup]
            volumeMounts: [{name: mpiup, mountPath: /opt/mpiup}]
`

const mounted = `
            volumeMounts: [{name: mpiup, mountPath: /opt/mpiup}]`

// on fails the test unless pi's ranks were on these hosts.
func (s *space) on(pod string, hosts ...string) {
	s.Helper()
	var got []string
	for _, m := range regexp.MustCompile(`Rank \d+ on host (\S+)`).FindAllStringSubmatch(s.logs(pod), -1) {
		got = append(got, m[1])
	}
	if slices.Sort(got); !slices.Equal(got, hosts) {
		s.Errorf("ranks were on %q, want %q", got, hosts)
	}
}
