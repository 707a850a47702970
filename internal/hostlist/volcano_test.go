package hostlist

import (
	"maps"
	"slices"
	"testing"
)

func TestVolcanoTasks(t *testing.T) {
	got := VolcanoTasks([]string{"VC_WORKER_HOSTS=job-worker-0.job, job-worker-1.job", "VC_LAUNCHER_HOSTS=job-launcher-0.job", "VC_EMPTY_HOSTS=",
		"VC__HOSTS=x", "VC_HOSTS=x", "VC_WORKER_NUM=2", "X_VC_A_HOSTS=x"})
	want := map[string][]string{"WORKER": {"job-worker-0.job", "job-worker-1.job"}, "LAUNCHER": {"job-launcher-0.job"}, "EMPTY": {}}
	if !maps.EqualFunc(got, want, slices.Equal) {
		t.Errorf("tasks %q, want %q", got, want)
	}
}
