package kubelet

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// standing is what is known of a pod, from which its status follows (pkg/kubelet/kubelet_pods.go: getPhase;
// pkg/kubelet/status/generate.go).
type standing struct {
	init, main []corev1.ContainerStatus // as the spec has them; empty before the pod is scheduled
	hostIP     string
	ips        []corev1.PodIP
	begun      *metav1.Time
	sandbox    bool // there is an address
	// end is the phase of a pod that has ended, "" before; with a reason and a message where kubelet ended it.
	end             corev1.PodPhase
	reason, message string
}

// scheduled is the standing of a pod that a node has taken: its containers wait.
func scheduled(spec *corev1.PodSpec) standing {
	now := metav1.Now()
	reason := "ContainerCreating"
	if len(spec.InitContainers) > 0 {
		reason = "PodInitializing"
	}
	waiting := func(containers []corev1.Container) (out []corev1.ContainerStatus) {
		for _, c := range containers {
			out = append(out, corev1.ContainerStatus{Name: c.Name, Image: c.Image, Started: new(bool),
				State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason}}})
		}
		return out
	}
	return standing{begun: &now, init: waiting(spec.InitContainers), main: waiting(spec.Containers)}
}

// of is the status of a container by its name.
func (s *standing) of(name string) *corev1.ContainerStatus {
	for _, all := range [][]corev1.ContainerStatus{s.init, s.main} {
		if i := slices.IndexFunc(all, func(c corev1.ContainerStatus) bool { return c.Name == name }); i >= 0 {
			return &all[i]
		}
	}
	panic("no container " + name) // the spec has it
}

// waits says why a container does not run; what it ended with before stays known.
func waits(c *corev1.ContainerStatus, reason, message string) {
	if c.State.Terminated != nil {
		c.LastTerminationState = c.State
	}
	c.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
	c.Ready, c.Started = false, new(bool)
}

// runs says that a container has started, and for which time.
func runs(c *corev1.ContainerStatus, restarts int) {
	if c.State.Terminated != nil {
		c.LastTerminationState = c.State
	}
	yes := true
	c.State, c.Started = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.Now()}}, &yes
	c.RestartCount = int32(restarts)
}

// ended says how a container has ended. Init containers are ready when they have done their work.
func ended(c *corev1.ContainerStatus, init bool, how corev1.ContainerStateTerminated) {
	how.FinishedAt = metav1.Now()
	if c.State.Running != nil {
		how.StartedAt = c.State.Running.StartedAt
	}
	c.State, c.Started, c.Ready = corev1.ContainerState{Terminated: &how}, new(bool), init && how.ExitCode == 0
}

// status is the pod's.
func (s *standing) status() corev1.PodStatus {
	out := corev1.PodStatus{Phase: s.phase(), Reason: s.reason, Message: s.message, HostIP: s.hostIP, PodIPs: slices.Clone(s.ips), StartTime: s.begun,
		InitContainerStatuses: slices.Clone(s.init), ContainerStatuses: slices.Clone(s.main)}
	if len(s.ips) > 0 {
		out.PodIP = s.ips[0].IP
	}
	out.Conditions = s.conditions(out.Phase)
	return out
}

// phase is Pending until all init containers have ended well and the container has started, and Running from then on.
func (s *standing) phase() corev1.PodPhase {
	begun := func(c corev1.ContainerStatus) bool {
		return c.State.Waiting == nil || c.LastTerminationState.Terminated != nil
	}
	switch {
	case s.end != "":
		return s.end
	case len(incomplete(s.init)) > 0 || !slices.ContainsFunc(s.main, begun):
		return corev1.PodPending
	}
	return corev1.PodRunning
}

// conditions are the pod's, which say what its phase says and more.
func (s *standing) conditions(phase corev1.PodPhase) []corev1.PodCondition {
	if s.begun == nil && s.end != "" { // of what is not played
		return nil
	}
	if s.begun == nil {
		return []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonSchedulingGated,
			Message: "Scheduling is blocked due to non-empty scheduling gates"}}
	}
	is := func(kind corev1.PodConditionType, is bool, reason, message string) corev1.PodCondition {
		status := corev1.ConditionFalse
		if is {
			status = corev1.ConditionTrue
		}
		return corev1.PodCondition{Type: kind, Status: status, Reason: reason, Message: message, LastTransitionTime: metav1.Now()}
	}
	ready, unready := is(corev1.PodReady, true, "", ""), slices.DeleteFunc(slices.Clone(s.main), func(c corev1.ContainerStatus) bool { return c.Ready })
	initialized := is(corev1.PodInitialized, true, "", "")
	if waiting := incomplete(s.init); len(waiting) > 0 {
		initialized = is(corev1.PodInitialized, false, "ContainersNotInitialized", "containers with incomplete status: "+names(waiting))
	}
	switch {
	case phase == corev1.PodSucceeded:
		ready, initialized.Reason = is(corev1.PodReady, false, "PodCompleted", ""), "PodCompleted"
	case phase == corev1.PodFailed && s.sandbox:
		ready = is(corev1.PodReady, false, "PodFailed", "")
	case len(unready) > 0:
		ready = is(corev1.PodReady, false, "ContainersNotReady", "containers with unready status: "+names(unready))
	}
	all := ready
	all.Type = corev1.ContainersReady
	return []corev1.PodCondition{is(corev1.PodReadyToStartContainers, s.sandbox && s.end == "", "", ""), initialized, ready, all, is(corev1.PodScheduled, true, "", "")}
}

// incomplete are the init containers that have not ended well yet.
func incomplete(init []corev1.ContainerStatus) []corev1.ContainerStatus {
	return slices.DeleteFunc(slices.Clone(init), func(c corev1.ContainerStatus) bool {
		return c.State.Terminated != nil && c.State.Terminated.ExitCode == 0
	})
}

func names(containers []corev1.ContainerStatus) string {
	out := make([]string, len(containers))
	for i, c := range containers {
		out[i] = c.Name
	}
	return "[" + strings.Join(out, " ") + "]"
}

// tell changes what is known of the pod and its status with it. Of two that tell, the later one's status stays.
func (p *pod) tell(change func(*standing)) error {
	p.telling.Lock()
	defer p.telling.Unlock()
	change(&p.standing)
	status := p.standing.status()
	return p.k.status(p.object, func(s *corev1.PodStatus) { *s = status })
}

// ends is a pod's end by itself or by its deletion: it has succeeded if its last containers have.
func (s *standing) ends(o outcome) {
	s.end, s.message = corev1.PodSucceeded, o.message
	if o.failed() {
		s.end = corev1.PodFailed
	}
	if o.reason != "" {
		s.end, s.reason = corev1.PodFailed, o.reason
	}
	for i := range s.main {
		if c := &s.main[i]; !s.sandbox && c.State.Waiting != nil { // of which nobody knows that it never ran
			ended(c, false, corev1.ContainerStateTerminated{Reason: "ContainerStatusUnknown", ExitCode: 137, Message: "The container could not be located when the pod was deleted."})
		}
	}
}
